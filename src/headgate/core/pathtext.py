"""Paths as text: quoted in C style where they have control characters, quotes or odd bytes."""

import re


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
_ESCAPED = re.compile(rb"\\([0-3][0-7]{2}|.?)", re.DOTALL)


def _quote(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _unquote(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _UNESCAPES.get(code, match[0])
