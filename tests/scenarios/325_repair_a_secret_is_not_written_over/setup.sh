printf "SIGNING_KEY=tr0ub4dor-and-3\n" > .env
printf ".env\n" > .gitignore
