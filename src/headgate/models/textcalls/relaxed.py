"""Values as models write them: JSON, Python literals, and what lies between. Linear, with bounded depth."""

import re
from typing import Any

DEPTH = 64
_SPACE = re.compile(r"\s*+")
_STRINGS = (
    ('"""', re.compile(r'"""((?:[^"\\]++|\\.|"(?!""))*+)"""', re.DOTALL)),
    ("'''", re.compile(r"'''((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL)),
    ('"', re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)),
    ("'", re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)),
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,300}+(?:\.\d{0,300}+)?|\.\d{1,300}+)(?:[eE][-+]?\d{1,2}+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w.\-]{0,200}+")
_WORDS: dict[str, Any] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "/": "/",
    "\n": "",
}
SPECIAL_QUOTE = '<|"|>'
"""The quotation mark of Gemma 4, which is one token; what it encloses has no escapes."""


class RelaxedParser:
    """Reads one value after another from a text; ValueError where there is none.

    `cut` tells afterwards whether the text ended inside of the value.
    """

    def __init__(
        self, text: str, position: int = 0, bare_keys: bool = False, quote: str = SPECIAL_QUOTE
    ) -> None:
        self.text = text
        self.position = position
        self.cut = False
        self._bare_keys = bare_keys
        self._quote = quote

    def skip_space(self) -> str:
        """Moves over white space; the next character, or nothing at the end."""
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.text[self.position : self.position + 1]

    def take(self, literal: str) -> bool:
        """Moves over white space and a literal, if it is there."""
        self.skip_space()
        if self.text.startswith(literal, self.position):
            self.position += len(literal)
            return True
        return False

    def word(self) -> str:
        """Moves over white space and a name."""
        self.skip_space()
        match = _WORD.match(self.text, self.position)
        if not match:
            raise self.error("a name is missing")
        self.position = match.end()
        return match[0]

    def error(self, message: str) -> ValueError:
        """The error to raise here; notes whether the text has ended."""
        self.cut = self.cut or self.position >= len(self.text)
        return ValueError(message)

    def value(self, depth: int = 0) -> Any:
        """The next value."""
        if depth > DEPTH:
            raise ValueError("nested too deeply")
        mark = self.skip_space()
        if mark == "{":
            return self._object(depth)
        if mark and mark in "[(":
            return self._items("]" if mark == "[" else ")", depth)
        if mark and (mark in "\"'" or self.text.startswith(self._quote, self.position)):
            return self._string()
        if match := _NUMBER.match(self.text, self.position):
            self.position = match.end()
            digits = match[0].replace("_", "")
            return int(digits) if digits.lstrip("+-").isdigit() else float(digits)
        if (match := _WORD.match(self.text, self.position)) and match[0] in _WORDS:
            self.position = match.end()
            return _WORDS[match[0]]
        if mark and mark in "rR" and self.text[self.position + 1 : self.position + 2] in ("'", '"'):
            self.position += 1
            return self._string(raw=True)
        raise self.error("a value is missing")

    def _string(self, raw: bool = False) -> str:
        if self.text.startswith(self._quote, self.position):
            start = self.position + len(self._quote)
            end = self.text.find(self._quote, start)
            if end < 0:
                self.cut = True
                raise ValueError("a string is not closed")
            self.position = end + len(self._quote)
            return self.text[start:end]
        for quote, pattern in _STRINGS:
            if self.text.startswith(quote, self.position) and (
                match := pattern.match(self.text, self.position)
            ):
                self.position = match.end()
                return match[1] if raw else _ESCAPE.sub(_unescape, match[1])
        self.cut = True
        raise ValueError("a string is not closed")

    def _object(self, depth: int) -> dict[str, Any]:
        self.position += 1
        found: dict[str, Any] = {}
        while not self.take("}"):
            mark = self.skip_space()
            if self._bare_keys and mark not in ('"', "'", "<", ""):
                key = self.word()
            elif mark:
                key = self._key()
            else:
                raise self.error("an object is not closed")
            if not self.take(":"):
                raise self.error("a colon is missing")
            found[key] = self.value(depth + 1)
            if not self.take(",") and self.skip_space() != "}" and not self._ends_with_quote():
                raise self.error("a comma is missing")
        return found

    def _ends_with_quote(self) -> bool:
        """Whether a mark that is no character of text ended the value: a comma then tells nothing more."""
        return self._bare_keys and self.text.endswith(self._quote, 0, self.position)

    def _key(self) -> str:
        if self.text[self.position] not in "\"'" and not self.text.startswith(self._quote, self.position):
            raise ValueError("a key must be a string")
        return self._string()

    def _items(self, closing: str, depth: int) -> list[Any]:
        self.position += 1
        found: list[Any] = []
        while not self.take(closing):
            found.append(self.value(depth + 1))
            if not self.take(",") and self.skip_space() != closing:
                raise self.error("a comma is missing")
        return found


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    # An escape that no language knows (`\d` in a pattern) is meant as it stands.
    return _ESCAPES.get(escape, match[0])


def read_literal(text: str) -> Any:
    """The value of a whole text that is JSON or a Python literal; ValueError where it is neither."""
    parser = RelaxedParser(text)
    value = parser.value()
    if parser.skip_space():
        raise ValueError("there is text after the value")
    return value
