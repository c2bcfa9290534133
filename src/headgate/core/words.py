"""Words in people's and models' texts that may name files, and how often something happened, in words."""

import re

_WORD = re.compile(r"[\w./-]+")
_ASKS_SOMEBODY = re.compile(r"\W*(can|could|would|will)\s+(you|we)\b", re.IGNORECASE)
_PLEASE = re.compile(r"\bplease\b", re.IGNORECASE)
LONGEST = 300


def path_words(text: str) -> list[str]:
    """The words with a dot inside, such as `src/app.py`; in linear time, whatever the text is."""
    found = (word.rstrip(".") for word in _WORD.findall(text))
    return [word for word in found if "." in word[1:] and len(word) <= LONGEST]


def is_question(text: str) -> bool:
    """Whether a text ends with a question mark and is no polite request."""
    asks = text.rstrip(" \t\r\n\"')\u201d\u2019*_`").endswith(("?", "\uff1f", "\u061f"))
    return asks and not _ASKS_SOMEBODY.match(text) and not _PLEASE.search(text)


def without_politeness(text: str) -> str:
    """The text without the words `can you` or `could we` at its beginning."""
    return _ASKS_SOMEBODY.sub("", text, count=1) if _ASKS_SOMEBODY.match(text) else text


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
