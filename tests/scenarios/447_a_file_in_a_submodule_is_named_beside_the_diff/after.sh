git init -q sub
echo x > sub/x.txt
git -C sub add x.txt
git -C sub -c user.name=Tests -c user.email=tests@localhost -c commit.gpgsign=false commit -q -m start
git add sub 2> /dev/null
git -c user.name=Tests -c user.email=tests@localhost -c commit.gpgsign=false commit -q -m sub
