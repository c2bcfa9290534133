grep -q 1 a.txt && grep -q 1 b.txt
