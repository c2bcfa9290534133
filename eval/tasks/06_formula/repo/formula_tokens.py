"""Splitting of formulas into tokens."""

import re

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|[A-Za-z_]\w*|[-+*/()])")


class FormulaError(ValueError):
    """A formula cannot be read or evaluated."""


def tokens_of(text: str) -> list[str]:
    """Return numbers, names, operators and parentheses of a formula in order."""
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"cannot read {text[position:]!r}")
        tokens.append(match.group(1))
        position = match.end()
    return tokens
