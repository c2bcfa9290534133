cat > .git/look.py <<'END'
import sqlite3

texts = [text for (text,) in sqlite3.connect(".headgate/headgate.db").execute("SELECT content FROM bodies")]
for words in ("I read the notes first.", "The key is [redacted]", "sk-live"):
    print(words, any(words in text for text in texts))
END
