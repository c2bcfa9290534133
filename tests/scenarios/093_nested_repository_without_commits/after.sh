git init -q nested
echo inner > nested/a.txt
