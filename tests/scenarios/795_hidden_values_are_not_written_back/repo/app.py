URL = "https://api.example.com/v2?k=91"
TRIES = 1
