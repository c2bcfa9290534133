"""The words of a boundary in prose, and whether a path has them."""

import re
from collections.abc import Mapping

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_EMPTY_WORDS = _set(
    """
    a an and any anything all also alone are as at avoid be below beneath both bounds can cannot change
    changes class classes code component components content contents dir directories directory do does don
    dont edit edits either etc everything existing file files folder folders for from function functions have
    here i in inside into is it its keep layer leave limits logic may me modify modifying module modules must
    my name named neither never no nor not of off on or our out package packages part parts path paths please
    plus read related repo repository s should so source stay stuff sub subsystem subtree suite system t that
    the their them there these they this those to too touch touching tree under untouched update us we well
    which whole will with within you your
    """
)
_SAME = {
    **dict.fromkeys(("authentication", "authorization", "authorisation", "authn", "authz"), "auth"),
    **dict.fromkeys(("configuration", "conf"), "config"),
    "db": "database",
    "documentation": "doc",
    "utility": "util",
    "application": "app",
    "administration": "admin",
    "library": "lib",
    "specification": "spec",
    "environment": "env",
}
_IMPLIED: Mapping[str, frozenset[str]] = {"migration": frozenset({"database", "schema", "sql"})}
"""Words that say nothing more beside this one: migrations are a database's."""


def wanted_words(text: str) -> set[str]:
    """The words that a path has to have."""
    wanted = {word for word in _name_words(text) if word not in _EMPTY_WORDS}
    for word in list(wanted):
        wanted -= _IMPLIED.get(word, frozenset())
    return wanted


def fits(path: str, wanted: set[str]) -> bool:
    """Whether the last name has no word but wanted ones, and the names above it have the rest."""
    above, _, name = path.rpartition("/")
    own = set(_name_words(name))
    return bool(own) and own <= wanted and wanted <= own | set(_name_words(above))


def _name_words(text: str) -> list[str]:
    return [_SAME.get(word, word) for word in map(_singular, plain_words(text))]


def plain_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _singular(word: str) -> str:
    if word in _EMPTY_WORDS:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word[:-1]
    return word


def without_ending(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    stem = name[:1] + name[1:].partition(".")[0]
    return f"{folder}{slash}{stem}"
