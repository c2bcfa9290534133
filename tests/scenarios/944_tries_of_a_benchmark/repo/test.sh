grep -qx 42 answer.txt || { echo "the answer is wrong"; exit 1; }
