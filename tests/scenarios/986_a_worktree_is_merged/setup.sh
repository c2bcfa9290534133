mkdir packages && touch packages/installed
