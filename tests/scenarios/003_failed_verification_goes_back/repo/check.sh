grep -qx 42 answer.txt || { echo "wrong answer: $(cat answer.txt)"; exit 4; }
