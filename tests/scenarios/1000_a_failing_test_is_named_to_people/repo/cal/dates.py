def parse(text):
    raise ValueError("no date: " + text)
