echo 'API_KEY=hush-hush-4711' > .env
head -c 3000 /dev/zero > blob.bin
ln -s /etc/passwd outside.txt
ln -s n.py alias.py
