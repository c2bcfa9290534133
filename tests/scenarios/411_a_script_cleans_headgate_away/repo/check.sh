grep -q 3 n.txt
