mkdir made
echo 3 > made/n
echo made/ > .gitignore
