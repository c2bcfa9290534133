echo dirty > a.txt
echo staged > staged.txt
git add staged.txt
echo untracked > untracked.txt
rm gone.txt
