echo "API_KEY=sk-live-0123456789abcdef" > .env
echo "The key is sk-live-0123456789abcdef." > notes.txt
echo .env > .gitignore
