test "$(cat n.txt)" = "$(cat qa/wanted.txt)"
