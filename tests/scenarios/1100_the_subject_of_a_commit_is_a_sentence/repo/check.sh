test "$(cat src/n.txt)" = 1
