mkdir -p notes
printf 'API_KEY=tr0ub4dor-and-3-secret\n' > .env
ln -s /etc/passwd notes/link.md
printf 'a\0b' > notes/binary.md
head -c 400000 /dev/zero | tr '\0' x > notes/huge.md
mkfifo notes/pipe.md
