printf "TOKEN=tok-5f3a9c71e2\n" > .env
