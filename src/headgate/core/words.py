"""Words in people's and models' texts that may name files, and how often something happened, in words."""

import re

_WORD = re.compile(r"[\w./-]+")
LONGEST = 300


def path_words(text: str) -> list[str]:
    """The words with a dot inside, such as `src/app.py`; in linear time, whatever the text is."""
    found = (word.rstrip(".") for word in _WORD.findall(text))
    return [word for word in found if "." in word[1:] and len(word) <= LONGEST]


def is_question(text: str) -> bool:
    """Whether a text ends with a question mark, as a question does in most languages."""
    return text.rstrip(" \t\r\n\"')\u201d\u2019*_`").endswith(("?", "\uff1f", "\u061f"))


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
