mkdir -p ../home/.ssh
echo PRIVATE > ../home/.ssh/id_rsa
ln -s ../home vendor
printf '.ssh\n' > .gitignore
