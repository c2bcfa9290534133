"""Words in people's and models' texts that may name files, and how often something happened, in words."""

import re

_WORD = re.compile(r"[\w./-]+")
LONGEST = 300


def path_words(text: str) -> list[str]:
    """The words with a dot inside, such as `src/app.py`; in linear time, whatever the text is."""
    found = (word.rstrip(".") for word in _WORD.findall(text))
    return [word for word in found if "." in word[1:] and len(word) <= LONGEST]


def shorten(text: str, chars: int) -> str:
    """The text, or its beginning with a mark that says how much is left out."""
    if len(text) <= chars:
        return text
    return f"{text[:chars].rstrip()} [... {len(text) - chars:,} more characters]"


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
