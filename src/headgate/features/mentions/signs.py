"""Files that a person mentions in a task's text: `@path`, `@path:10-40`, `@"with space.py"`, `@src/`.

An `@` is used for much else: addresses, decorators, packages. So whoever reads a text says which files there
are, and what is no file is a mention only if it can hardly be anything else. What the text only quotes, such
as a log, mentions nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, islice

from headgate.core import find_quotations
from headgate.first_use import dataclass, regex

MOST = 50
"""Mentions of one text that are looked at; a person means fewer."""
_MOST_SIGNS = 500
"""Signs that are tried: each is a look at the disk."""
_SIGN = regex(
    r"(?<![\w@./+\\-])@(?:"
    r'"(?P<quoted>[^"\x00-\x1f]{1,300})"(?P<range>:\d{1,9}(?:-\d{0,9})?)?'
    r"|(?P<word>(?:(?![,;|]@)[^\s\"`@\x00-\x1f]|(?<=/)@){1,300}))"
)
_RANGE = regex(r":(\d{1,9})(?:(-)(\d{1,9})?)?")
_ENDS = ".,;:!?)]}>'*_\u2026\u3002\uff0c"
"""What may follow a path in a sentence."""
_BREAKS = ",;:'()\u3001\u3002\uff0c"
"""Where a word may end that goes on behind a path, such as `'s` or `:total`."""
_MOST_CUTS = 12
"""Each reading of a word is looked for on the disk."""
_CODE = regex(r"`[^`\n]+`")
_FILE_ENDING = regex(
    r"\.(?:bash|c|cc|cfg|cpp|cs|css|csv|env|gif|go|h|hpp|html?|ini|ipynb|java|jpe?g|jsx?|json|kt|lock|log|lua|md|mjs"
    r"|php|png|proto|pyi?|rb|rs|rst|scala|scss|sh|sql|svelte|svg|swift|tf|toml|tsx?|txt|vue|webp|xml|ya?ml|zig)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A file or a folder that is mentioned, perhaps some of its lines."""

    path: str
    """As it is written."""
    first: int | None = None
    last: int | None = None
    """The lines from 1, both included. None as the last one: up to the end."""

    def __str__(self) -> str:
        """As a person would write it."""
        path = f'"{self.path}"' if " " in self.path else self.path
        if self.first is None:
            return f"@{path}"
        if self.last is None:
            return f"@{path}:{self.first}-"
        lines = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"@{path}:{lines}"


@dataclass(frozen=True, slots=True)
class Mentions:
    """What a text mentions, each once, in its order."""

    found: tuple[Mention, ...] = ()
    """What is there."""
    missing: tuple[Mention, ...] = ()
    """What looks like nothing but a file, and is not there."""


def find_mentions(text: str, exists: Callable[[str], bool]) -> Mentions:
    """The mentions in a text. `exists` says whether a path, as it is written, is a file or a folder."""
    found: dict[Mention, None] = {}
    missing: dict[Mention, None] = {}
    if "@" not in text:
        return Mentions()
    quoted, code = _quoted_spans(text), [found.span() for found in _CODE.finditer(text)]
    own = (sign for sign in _SIGN.finditer(text) if not _is_in(quoted, sign))
    for count, sign in enumerate(own):
        if count == _MOST_SIGNS or len(found) + len(missing) == MOST:
            break
        there = next((each for each in _readings(sign) if exists(each.path)), None)
        if there is not None:
            found[there] = None
        elif (meant := _likely(sign)) and not _is_in(code, sign):
            missing[meant] = None
    return Mentions(tuple(found), tuple(missing))


def without_signs(text: str, exists: Callable[[str], bool]) -> str:
    """The text as a sentence for people: the paths that it mentions have no `@` before them."""

    def name(sign: re.Match[str]) -> str:
        is_mention = any(exists(each.path) for each in _readings(sign)) or _likely(sign)
        return sign[0][1:] if is_mention else sign[0]

    return _SIGN.sub(name, text)


def _readings(sign: re.Match[str]) -> Iterator[Mention]:
    """What a sign may mean, the longest path first."""
    if sign["quoted"] is not None:
        yield _with_range(sign["quoted"], sign["range"] or "")
        return
    for word in islice(dict.fromkeys(_cuts(sign["word"])), _MOST_CUTS):
        yield Mention(word)
        ranged = _RANGE.search(word)
        if ranged and ranged.end() == len(word) and ranged.start():
            yield _with_range(word[: ranged.start()], ranged[0])


def _cuts(word: str) -> Iterator[str]:
    """A word, without what may follow a path in a sentence, and without what may go on behind it."""
    yield word
    for end in range(len(word), 0, -1):
        if end < len(word) and word[end] not in _BREAKS and word[end:].strip(_ENDS):
            continue
        if word[end - 1] not in _ENDS:
            yield word[:end]


def _likely(sign: re.Match[str]) -> Mention | None:
    """What a sign means if no such file is there; None if it may be something else than a file."""
    if sign["quoted"] is not None:
        return _with_range(sign["quoted"], sign["range"] or "")
    word = sign["word"].rstrip(_ENDS)
    ranged = _RANGE.search(word)
    path = word[: ranged.start()] if ranged else word
    if not path or any(char in path for char in "()=") or not any(map(str.isalnum, path)):
        return None
    named = (
        _FILE_ENDING.search(path) is not None or path.endswith("/") or path.startswith(("./", "../", "~/"))
    )
    in_folder = "/" in path and "." in path.rpartition("/")[2][1:]
    lines = ranged is not None and ("." in path[1:] or "/" in path)
    return _with_range(path, ranged[0] if ranged else "") if named or in_folder or lines else None


def _with_range(path: str, written: str) -> Mention:
    """Lines that are given the wrong way round are meant all the same."""
    ranged = _RANGE.fullmatch(written)
    if ranged is None:
        return Mention(path)
    first = max(int(ranged[1]), 1)
    if ranged[2] is None:
        return Mention(path, first, first)
    if ranged[3] is None:
        return Mention(path, first)
    last = max(int(ranged[3]), 1)
    return Mention(path, min(first, last), max(first, last))


def _quoted_spans(text: str) -> list[tuple[int, int]]:
    """Where the text quotes something, from character to character."""
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    shown = [line.rstrip("\r\n") for line in lines]
    return [(starts[first], starts[end]) for first, end, _ in find_quotations(shown, open_fences=True)]


def _is_in(spans: list[tuple[int, int]], sign: re.Match[str]) -> bool:
    """Whether a sign is in one of the spans, which stand in their order."""
    place = bisect_right(spans, sign.start(), key=lambda span: span[0])
    return place > 0 and sign.start() < spans[place - 1][1]
