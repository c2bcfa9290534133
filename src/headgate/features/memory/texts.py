"""What models save for later tasks: short texts with tags. What counts as the same text, and as a word."""

import unicodedata
from collections.abc import Iterable

from headgate.first_use import dataclass, regex

MEMORY_CHARS = 2_000
MEMORY_TAGS, TAG_CHARS = 10, 40
_WORD = regex(r"[^\W_]+")
_NOT_IN_TAGS = regex(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Memory:
    """A text that a model has saved. Nobody has checked whether it is true."""

    id: str
    text: str
    tags: tuple[str, ...]
    task: str
    """The id of the task that saved it."""
    at: float


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """What saving a text came to: a new memory, or an earlier one with the same text."""

    memory: Memory
    is_new: bool = True
    added_tags: tuple[str, ...] = ()
    """Tags that an earlier memory did not have."""


def normal_form(text: str) -> str:
    """The same for texts that differ only in case, in spaces, or in how characters are encoded."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def words_of(text: str) -> list[str]:
    """The words of a text in their normal form, in order."""
    return _WORD.findall(normal_form(text))


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are stored: lower case, without spaces, each once."""
    written = (_NOT_IN_TAGS.sub("-", normal_form(tag)).strip("-") for tag in tags)
    return tuple(dict.fromkeys(tag for tag in written if tag))
