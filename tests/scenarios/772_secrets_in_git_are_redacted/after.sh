printf "TOKEN=committed-value-1\n" > .env
git add -f .env
git -c user.name=A -c user.email=a@b.c commit -qm secret
printf "TOKEN=stashed-value-2\n" > .env
git -c user.name=A -c user.email=a@b.c stash -q
git -c user.name=A -c user.email=a@b.c rm -q --cached .env
rm .env
