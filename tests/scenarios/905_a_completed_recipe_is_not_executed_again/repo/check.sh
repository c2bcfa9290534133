test "$(cat n.txt)" = 1
