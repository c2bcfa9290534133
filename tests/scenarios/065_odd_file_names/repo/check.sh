set -eu
grep -qx new 'a b.txt'
grep -qx new "it's \"q\".txt"
grep -qx new "$(printf 'line\nbreak.txt')"
grep -qx new "$(printf 'caf\351.txt')"
test "$(ls | wc -l)" = 7
