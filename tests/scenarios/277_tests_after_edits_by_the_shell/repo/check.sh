grep -q 5 n.txt
