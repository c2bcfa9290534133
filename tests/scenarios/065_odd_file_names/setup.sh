printf 'old\n' > 'a b.txt'
printf 'old\n' > "it's \"q\".txt"
printf 'old\n' > "$(printf 'line\nbreak.txt')"
printf 'old\n' > "$(printf 'caf\351.txt')"
