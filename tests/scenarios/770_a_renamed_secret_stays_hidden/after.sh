mkdir -p config deploy/.aws
printf "TOKEN=env-value-1\n" > config/.env
printf "the door opens with\nthree knocks\n" > deploy/.aws/credentials
printf "behind a link\n" > kept.txt
ln -s "$PWD/kept.txt" linked.env
