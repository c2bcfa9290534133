"""Regular expressions that are compiled when they are first used.

Headgate knows several hundred, and a process needs few of them.
"""

import re
from typing import Any, AnyStr, cast

_TAKEN_OVER = (
    *("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"),
    *("flags", "groups", "groupindex"),
)


class LazyPattern:
    """Stands for a compiled expression until it is asked for something, and then has all that one has."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def compile(self) -> None:
        compiled = re.compile(self.pattern, self._flags)
        for name in _TAKEN_OVER:
            setattr(self, name, getattr(compiled, name))

    def __getattr__(self, name: str) -> Any:
        """Reached for what is not there yet, so that only the first use takes longer."""
        if name not in _TAKEN_OVER:
            raise AttributeError(name)
        self.compile()
        return getattr(self, name)


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """An expression with the methods of one that `re.compile` returns; a wrong one fails at its first use."""
    return cast(re.Pattern[AnyStr], LazyPattern(text, flags))
