grep -q 1 n.txt
