"""Characters that steer a terminal or an editor, in text that other people's programs and models wrote."""

from headgate.first_use import regex

_STEERING = regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
"""Control characters but for line breaks and tabs, and those that change the direction of text."""


def escape_controls(text: str) -> str:
    """Text that cannot steer a terminal: such characters are written out, as in \\x1b."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
