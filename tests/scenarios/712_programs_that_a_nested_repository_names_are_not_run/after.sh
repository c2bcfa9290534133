git init -q sub
cd sub
echo x > x.txt
git add x.txt
git -c user.name=Tests -c user.email=tests@localhost -c commit.gpgsign=false commit -q -m start
echo '* filter=x' > .gitattributes
git config filter.x.clean 'env > ../ran; cat'
git config core.fsmonitor 'env > ../ran'
cd ..
git add sub 2> /dev/null
git config filter.x.clean 'env > ran; cat'
echo '* filter=x' > .git/info/attributes
git config core.fsmonitor 'env > ran; false'
rm -f ran sub/ran
