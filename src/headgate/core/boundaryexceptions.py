"""Boundaries that say where changes may go, or that make an exception: they do not protect what they name."""

import re
from collections.abc import Iterable

from headgate.core.boundarytext import looks_like_path, split_list, strip_ending, without_notes
from headgate.core.boundarywords import plain_words

_EXCEPTIONS = re.compile(
    r"\b(?:except|excepting|excluding|but|unless|only|solely|exclusively|besides|outside|beyond|apart|other"
    r"|without)\b"
)
_VERBS = "(?:touch|change|edit|modify|update)"
_INSIDE = "(?:within|inside|in(?! (?:mind|sync|place|step|touch))|to|on|under|below)"
_CHANGES = "(?: (?:all|any|your|my|the|these|edits|changes|modifications|work|it|yourself|strictly|close))*"
_NOT_BEFORE = r"(?<!\bnot )(?<!\bt )(?<!\bdont )(?<!\bnever )(?<!\bavoid )"
_RESTRICTIONS = re.compile(
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

_EXCEPT = re.compile(
    r"[,;]?\s+(?:except(?:ing)?(?:\s+for)?|excluding|but\s+not|other\s+than|(?:apart|aside)\s+from"
    r"|with\s+the\s+exception\s+of):?\s+",
    re.IGNORECASE,
)
_PROHIBITION = re.compile(rf"^(?:please )?(?:do not|don t|dont|never) {_VERBS}\b")
_FILLER = re.compile(
    r"(?: |\b(?:a|all|any|anything|below|directory|everything|files?|folder|in|inside|of|the|under)\b)*"
)


def split_exception(text: str) -> tuple[str, str] | None:
    """The two sides of `X except Y`; None if a text makes no exception, or more than one."""
    halves = _EXCEPT.split(text)
    return (halves[0], halves[1]) if len(halves) == 2 else None


def adds_nothing(words: str) -> bool:
    """Whether the words around a path say no more than the path alone."""
    prose = " ".join(plain_words(words))
    return _FILLER.fullmatch(_PROHIBITION.sub("", prose)) is not None


def lies_below(path: str, pattern: str) -> bool:
    """Whether a path or pattern is below the folder that a pattern without other wildcards covers."""
    folder = pattern.strip("/").removesuffix("/**").casefold()
    return path.strip("/").casefold().startswith(f"{folder}/")


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
