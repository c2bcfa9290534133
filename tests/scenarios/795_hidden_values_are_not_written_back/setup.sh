printf "API_URL=https://api.example.com/v2?k=91\n" > .env
