grep -q 1 a.txt && grep -q 2 b.txt
