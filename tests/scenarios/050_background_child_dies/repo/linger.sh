echo $$ > "$1"
while :; do sleep 0.1; done
