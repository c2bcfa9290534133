# Changes n.txt from its second run on.
if [ -e ran ]; then echo 1 > n.txt; fi
touch ran
