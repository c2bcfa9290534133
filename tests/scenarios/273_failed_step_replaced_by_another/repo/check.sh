grep -q 1 a.txt
