printf "TOKEN=tracked-before-1\n" > .env.local
