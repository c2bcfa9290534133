"""Finding the name that somebody meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name closest to `word`, if any is close."""
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def unknown_name(kind: str, word: str, known: Iterable[str]) -> str:
    """`unknown stage "implment": did you mean "implement"?`, or the list of what there is."""
    names = sorted(known)
    close = nearest(word, names)
    if close:
        return f'unknown {kind} "{word}": did you mean "{close}"?'
    return f'unknown {kind} "{word}": known are {", ".join(names) or "none"}'
