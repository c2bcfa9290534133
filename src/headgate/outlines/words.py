"""Words: the parts of names, and the stem under which `parsing`, `parsed` and `parses` are one word."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from headgate.first_use import regex

_WORD = regex(r"\w+")
_PART = regex(r"[A-Z]{2,}[a-z](?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_IDENTIFIER = regex(r"[A-Za-z_$][\w$]*")
_LONGEST = 60
"""Characters of a word; what is longer is data."""
_DOUBLED = frozenset("bdfgklmnprtz")


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """A word without the endings that say only how it is used. It need not be a word any more."""
    word = word.lower()
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] in _DOUBLED:
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@lru_cache(maxsize=200_000)
def words_of_name(name: str) -> tuple[str, ...]:
    """The stems of a name's parts: `HTTPServer_name` has `http`, `server` and `nam`."""
    if len(name) > _LONGEST:
        return ()
    return tuple(stem(part) for part in _PART.findall(name) if len(part) > 1)


def words_of_text(text: str) -> dict[str, int]:
    """The stems of all words of a text, and how often each is there."""
    counts: dict[str, int] = {}
    for word, count in Counter(_WORD.findall(text)).items():
        for part in words_of_name(word):
            counts[part] = counts.get(part, 0) + count
    return counts


def identifiers_in(text: str) -> Mapping[str, int]:
    """The names in a text that could be those of definitions, and how often each is there."""
    found = Counter(_IDENTIFIER.findall(text))
    return {name: count for name, count in found.items() if 2 < len(name) <= _LONGEST}
