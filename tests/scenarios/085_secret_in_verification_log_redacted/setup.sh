printf 'API_TOKEN=not-a-real-token-4711\n' > .env
