git update-index --cacheinfo 100644,"$(echo x | git hash-object -w --stdin)",tests/test_a.py
git -c user.name=T -c user.email=t@localhost -c commit.gpgsign=false commit -qm sneaky
grep -q new app.txt
