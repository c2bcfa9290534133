printf "TOKEN=untracked-value-1\n" > .env
