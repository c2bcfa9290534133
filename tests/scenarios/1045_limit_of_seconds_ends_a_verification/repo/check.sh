sleep 40; grep -q 1 n.txt
