read n < n.txt
echo "n is $n"
test "$n" -eq 5
