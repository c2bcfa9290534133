mkfifo skills/pipe/SKILL.md
