mkdir -p skills/huge skills/binary skills/pipe skills/link ../outside/away
head -c 300000 /dev/zero | tr '\0' x > skills/huge/SKILL.md
printf -- '---\nname: binary\ndescription: x\n---\n\000\001' > skills/binary/SKILL.md
printf -- '---\nname: link\ndescription: stolen\n---\nsecret\n' > ../outside/SKILL.md
ln -s ../../../outside/SKILL.md skills/link/SKILL.md
cp ../outside/SKILL.md ../outside/away/SKILL.md
ln -s ../../outside/away skills/away
mkdir -p .claude && ln -s ../../outside .claude/skills
printf 'x' > .agents
