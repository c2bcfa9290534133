echo old.txt: bad style
exit 1
