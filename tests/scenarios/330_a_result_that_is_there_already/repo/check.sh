grep -q "^0 is" n.txt
