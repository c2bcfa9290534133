chmod 755 vendor/run.sh
ln -s lib.txt vendor/link
