"""Small functions on people's and models' texts: shortening, the nearest name, words that may be files."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from headgate.first_use import regex


def cut_text(text: str, limit: int, what: str = "") -> str:
    """The beginning and the end of a text, in at most `limit` characters. `what` names it in the mark."""
    if len(text) <= limit:
        return text
    room, mark = limit, ""
    named = f" of {what}" if what else ""
    # The mark's length depends on the number in it, which depends on the mark's length.
    for _ in range(3):
        mark = f"\n[... {len(text) - room} characters{named} cut here ...]\n"
        room = limit - len(mark)
    if room < 2:
        return text[:limit]
    return text[: room - room // 2] + mark + text[len(text) - room // 2 :]


def shorten(text: str, chars: int) -> str:
    """The text, or its beginning with a mark that says how much is left out."""
    if len(text) <= chars:
        return text
    return f"{text[:chars].rstrip()} [... {len(text) - chars:,} more characters]"


def quote_lines(text: str) -> str:
    """Other people's words, and a model's, as a quotation: none of its lines can pass for one of ours."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def share_out(sizes: Sequence[int], room: int) -> int:
    """The largest limit such that texts of these sizes, each cut to it, fit the room together."""
    limit = room
    for position, size in enumerate(sorted(sizes)):
        limit = room // (len(sizes) - position)
        if size > limit:
            break
        limit = size
        room -= size
    return limit


_FENCES = regex(r"^[ \t]*(`{3,})", re.MULTILINE)


def fence(text: str) -> str:
    """A text as a block of its own, in Markdown, which nothing in it ends."""
    marks = "`" * max((len(found) + 1 for found in _FENCES.findall(text)), default=3)
    return f"{marks}\n{text}\n{marks}"


# Finding the name that somebody meant.


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


_OPENAI_NAME = regex(
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


# Words in people's and models' texts that may name files, and how often something happened, in words.


_WORD = regex(r"[\w./-]+")
_MARKED = regex(r"(?<![\w@])@(?:\"([^\"\n]{1,300})\"|([\w./-]+))")
_ASKS_SOMEBODY = regex(r"\W*(can|could|would|will)\s+(you|we)\b", re.IGNORECASE)
LONGEST = 300


def path_words(text: str) -> list[str]:
    """The words with a dot inside, such as `src/app.py`, after those behind an @, which need none.

    In linear time, whatever the text is.
    """
    marked = (quoted or word.rstrip(".") for quoted, word in _MARKED.findall(text))
    found = (word.rstrip(".") for word in _WORD.findall(text))
    words = [*marked, *(word for word in found if "." in word[1:])]
    return [word for word in dict.fromkeys(words) if 0 < len(word) <= LONGEST]


def without_politeness(text: str) -> str:
    """The text without the words `can you` or `could we` at its beginning."""
    return _ASKS_SOMEBODY.sub("", text, count=1) if _ASKS_SOMEBODY.match(text) else text


def say_duration(seconds: float) -> str:
    """`40 s`, `10 minutes`."""
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:.3g} minutes"


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


# Text that was written for a terminal, as plain text.


_TERMINAL_CODES = regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127])


def plain(text: str) -> str:
    """What a terminal would show in the end: no colours, no control characters, overwritten text gone."""
    lines = _TERMINAL_CODES.sub("", text).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].translate(_CONTROLS) for line in lines)


_HIDDEN = regex("[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_JOINERS = regex("[\u200c\u200d]")


def show_hidden(text: str, *, joiners: bool = False) -> str:
    """Text in which characters that are not seen, or turn the direction of others, are named: `[U+202E]`.

    With `joiners`, also those that scripts and emoji need in prose, and that nobody needs in code.
    """
    shown = _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)
    return _JOINERS.sub(lambda found: f"[U+{ord(found[0]):04X}]", shown) if joiners else shown


# Paths as text: quoted in C style where they have control characters, quotes or odd bytes.


def show_path(path: str) -> str:
    """A path as text: itself, or quoted in C style where it has control characters, quotes or odd bytes."""
    raw = path.encode("utf-8", "surrogateescape")
    try:
        plain = raw.decode()
    except UnicodeDecodeError:
        plain = ""
    if plain and plain.isprintable() and not any(char in plain for char in '"\\') and plain == plain.strip():
        return plain
    return '"' + "".join(_quote(byte) for byte in raw) + '"'


def parse_path(text: str) -> str:
    """The inverse of `show_path`; text that is not such a quotation is the path itself."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        quoted = text[1:-1].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text
    return _ESCAPED.sub(_unquote, quoted).decode("utf-8", "surrogateescape")


_ESCAPES = {0x07: "\\a", 0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0B: "\\v", 0x0C: "\\f", 0x0D: "\\r"}
_ESCAPES |= {0x22: '\\"', 0x5C: "\\\\"}
_UNESCAPES = {escape[1].encode(): bytes([byte]) for byte, escape in _ESCAPES.items()}
_ESCAPED = regex(rb"\\([0-3][0-7]{2}|.?)", re.DOTALL)


def _quote(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _unquote(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _UNESCAPES.get(code, match[0])


def count(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def first_clause(text: str) -> str:
    """The beginning of a sentence, as far as it can stand alone."""
    return text.split("; ", maxsplit=1)[0].split(". ", maxsplit=1)[0].rstrip(".")[:160]


def shorten_words(text: str) -> str:
    """The beginning of what somebody wrote, in one line."""
    return " ".join(text.split())[:120]


_HUMP = regex(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = regex(r"[^a-z0-9]+")


def match_spelling(name: str, choices: Iterable[str]) -> str:
    """The choice that a model means: `Code Modify`, `code-modify` and `codeModify` are `code_modify`.

    The name as it is, if there is no such choice.
    """
    plain = _NO_LETTER.sub("_", _HUMP.sub("_", name.strip()).lower()).strip("_")
    squeezed = plain.replace("_", "")
    return next((one for one in choices if one.replace("_", "") == squeezed), name)
