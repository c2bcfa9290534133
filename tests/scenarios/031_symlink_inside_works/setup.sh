ln -s docs/real.txt alias.txt
ln -s docs folder
