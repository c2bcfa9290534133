test "$(sh greet.sh you)" = "Hello, you" && exit
echo "greet.sh:1: no comma"
exit 1
