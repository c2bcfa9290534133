git init -q inner
echo x > inner/x.txt
echo old > marked.txt
git add marked.txt
git update-index --assume-unchanged marked.txt
