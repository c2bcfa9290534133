grep -q 1 n.txt && exit 1
sleep 40
