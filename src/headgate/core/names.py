"""Finding the name that somebody meant."""

import re
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


_OPENAI_NAME = re.compile(
    r"ft:.+|(gpt-\d+(\.\d+)?[a-z]?|chatgpt-\d+(\.\d+)?[a-z]?|o[1-9]|codex|computer-use)"
    r"(-(api|audio|chat|codex|deep|instruct|latest|max|mini|nano|preview|pro|research|search|spark|turbo|vision"
    r"|\d{2}|\d{4}|\d+k))*",
    re.IGNORECASE,
)
"""Names under which OpenAI serves models. Open models that are called alike (gpt-oss, gpt-4-x-alpaca) are not
among them: their users run them elsewhere."""


def is_openai_name(model: str) -> bool:
    """Whether a model's name is one of those that OpenAI's own service has."""
    return _OPENAI_NAME.fullmatch(model) is not None
