test "$(cat n.txt)" = 1 && test -e packages/installed
