touch report.xml
test $(($(cat a.txt) + $(cat b.txt))) -eq 3
