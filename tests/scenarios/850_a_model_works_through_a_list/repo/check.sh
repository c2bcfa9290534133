test "$(cat n.txt)" = 1 && test "$(cat m.txt)" = 2
