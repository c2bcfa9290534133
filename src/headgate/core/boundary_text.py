"""Boundaries as people write them: lists, notes, quotes, prose, exceptions. No repository is looked at."""

import re
from collections.abc import Iterable, Iterator

from headgate.first_use import regex

_QUOTES = "`'\"\u2018\u2019\u201c\u201d"
_PAIRS = {"`": "`", '"': '"', "\u201c": "\u201d", "\u2018": "\u2019"}
_OPENING, _CLOSING = "([{", ")]}"
_WORDS_BETWEEN = regex(r"(?:and|or|nor|plus|as well as)(?=\s)", re.IGNORECASE)
_SENTENCE_END = regex(r"[.!?](?=\s+\S)")
_ABBREVIATIONS = regex(r"(?<!\S)\(?(?:e\.g|i\.e|etc|incl|esp|cf|viz)\b\.?,?", re.IGNORECASE)
_NOTE = regex(r"\s\([^()]*(?:\([^()]*\)[^()]*)*\)[\s.,;:]*$")
_REMARK = regex(r"\s(?:-{1,2}|[\u2013\u2014]|#|//|<-+|-+>|=>)\s.*$", re.DOTALL)
_LIST = regex(r"\[(.*[,/\"'*].*)\]", re.DOTALL)
_BOLD = regex(r"(\*\*|__)(\w(?:.*\w)?)\1")
_ENDING = regex(r"(?<=[^\s.,;:!?/])[.,;:!?]+$|(?<=/)(?:\.{3}|[,;:!?]+)$")
_GLOB = regex(r"[*?\[]")


def split_list(text: str) -> list[str]:
    """The members of an enumeration: at commas, `and`, sentence ends, outside of quotes and brackets."""
    text = _ABBREVIATIONS.sub(" ", text).strip()
    if found := _LIST.fullmatch(text):
        text = found[1]
    parts, start, index = [], 0, 0
    while index < len(text):
        cut = 0
        if close := _closing(text, index):
            index = close
        elif text[index] in ",;\n" or (text[index] == "&" and text[index - 1 : index].isspace()):
            cut = 1
        elif index and text[index - 1].isspace() and (word := _WORDS_BETWEEN.match(text, index)):
            cut = len(word[0])
        elif _SENTENCE_END.match(text, index) and index and text[index - 1] not in "./":
            cut = 1
        if cut:
            parts.append(text[start:index])
            start = index + cut
        index += cut or 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip(" \t.") or text == "."]


def without_notes(text: str) -> str:
    """The text without a note in parentheses, or a remark behind a dash, at its end."""
    while (shorter := _NOTE.sub("", text)) != text and shorter.strip():
        text = shorter
    remark = _REMARK.search(text)
    if remark and any(map(looks_like_path, text[: remark.start()].split())):
        text = text[: remark.start()]
    return text.strip()


def unquote(text: str) -> str:
    """The text without quotes, bold marks or parentheses around all of it."""
    while True:
        inner = text.strip()
        if len(inner) > 1 and inner[0] in _QUOTES and inner[-1] in _QUOTES:
            inner = inner[1:-1] if not set(inner[1:-1]) & {"`", '"'} else inner
        elif bold := _BOLD.fullmatch(inner):
            inner = bold[2]
        elif inner.startswith("(") and inner.endswith(")") and inner.count("(") == 1:
            inner = inner[1:-1]
        if inner == text:
            return text
        text = inner


def bare_words(text: str) -> Iterator[str]:
    """The words of a text, without quotes and punctuation around them."""
    for word in text.split():
        yield strip_ending(word.strip(f"{_QUOTES},;:").removeprefix("(").rstrip(f"{_QUOTES},;:"))


def strip_ending(text: str) -> str:
    """A path without the full stop, or other punctuation, of the sentence that it ends."""
    text = _ENDING.sub("", text)
    return text[:-1] if text.endswith(")") and "(" not in text else text


def looks_like_path(text: str) -> bool:
    """Whether a word can only be meant as a path or a pattern."""
    if "://" in text or (text.startswith("[") and text.endswith("]")):
        return False
    if _GLOB.search(text) and not re.fullmatch(r"\W*\*\*?[\w\s]*\*?\*?\W*", text):
        return True
    return "/" in text.strip(".,;:") or re.search(r"\w\.[A-Za-z_]|^\.\w|\w\\\w", text) is not None


def _closing(text: str, index: int) -> int:
    """Where the quotes or brackets that open at `index` are closed; 0 if nothing opens, or never closes."""
    char = text[index]
    if char in _PAIRS:
        return max(text.find(_PAIRS[char], index + 1), 0)
    if char not in _OPENING:
        return 0
    depth = 0
    for place in range(index, len(text)):
        depth += text[place] in _OPENING
        depth -= text[place] in _CLOSING
        if not depth:
            return place
    return 0


_WORD = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def plain_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


# Boundaries that say where changes may go, or that make an exception: they do not protect what they name.


_EXCEPTIONS = regex(
    r"\b(?:except|excepting|excluding|but|unless|only|solely|exclusively|besides|outside|beyond|apart|other"
    r"|without)\b"
)
_VERBS = "(?:touch|change|edit|modify|update)"
_INSIDE = "(?:within|inside|in(?! (?:mind|sync|place|step|touch))|to|on|under|below)"
_CHANGES = "(?: (?:all|any|your|my|the|these|edits|changes|modifications|work|it|yourself|strictly|close))*"
_NOT_BEFORE = r"(?<!\bnot )(?<!\bt )(?<!\bdont )(?<!\bnever )(?<!\bavoid )"
_RESTRICTIONS = regex(
    rf"{_NOT_BEFORE}\b(?:stay|staying|stick|keep|remain){_CHANGES} {_INSIDE}\b"
    rf"|{_NOT_BEFORE}\bwork(?: strictly)? (?:within|inside)\b"
    rf"|{_NOT_BEFORE}(?<!\boff )\b(?:limit(?:ed|ing)?|restrict(?:s|ed|ing)?|confin(?:e|es|ed|ing)|scoped)"
    r"(?: \w+){0,4} (?:to|within|inside)\b"
    r"|\b(?:not|t|dont|never|cannot) (?:leave|exit|stray|(?:step|go|move) out of)\b"
    r"|\b(?:anything|everything|whatever|all|files?|code|that|which)(?: \w+){0,3} (?:not|t)"
    r" (?:in|within|inside|under|below)\b"
    rf"|\bjust {_VERBS}\b|^(?:you|we) (?:may|can) (?:freely )?{_VERBS}\b"
    r"|\baside from\b|\bwith the exception of\b"
)


def names_the_opposite(part: str) -> bool:
    """Whether prose may mean everything except the paths that it names.

    `src/auth is restricted to the security team` does not: there the path comes first.
    """
    words = part.split()
    if len(words) < 2:
        return False
    prose = " ".join("/" if looks_like_path(word) else " ".join(plain_words(word)) for word in words)
    if _EXCEPTIONS.search(prose):
        return True
    found = _RESTRICTIONS.search(prose)
    return found is not None and ("/" not in prose[: found.start()] or "exception" in found[0])


def why_unenforced(text: str) -> str:
    """What is wrong with a boundary that is not enforced, and how to write it if that can be said."""
    if any(names_the_opposite(strip_ending(without_notes(part))) for part in split_list(text)):
        return (
            "it says where changes may go, or makes an exception that is not understood."
            ' Write "/**, !src/auth/**" to protect everything except src/auth,'
            ' or "db/**, !db/seed.sql" to protect db except one file.'
        )
    return "it names no path here."


def boundary_problems(unenforced: Iterable[str], unmatched: Iterable[str]) -> tuple[str, ...]:
    """What people are told about boundaries that protect nothing now."""
    return (
        *(f'Boundary "{text}" is not enforced: {why_unenforced(text)}' for text in unenforced),
        *(
            f'Boundary "{text}" matches nothing now. It holds once such a file exists; check the spelling.'
            for text in unmatched
        ),
    )
