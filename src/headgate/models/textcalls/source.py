"""The text of a reply, read from any position for a bounded amount of work."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from headgate.first_use import regex
from headgate.reading import repair_json

# Values as models write them: JSON, Python literals, and what lies between. Linear, with bounded depth.


DEPTH = 64
_SPACE = regex(r"\s*+")
_STRINGS = (
    ('"""', regex(r'"""((?:[^"\\]++|\\.|"(?!""))*+)"""', re.DOTALL)),
    ("'''", regex(r"'''((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL)),
    ('"', regex(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)),
    ("'", regex(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)),
)
_NUMBER = regex(r"[-+]?(?:\d{1,300}+(?:\.\d{0,300}+)?|\.\d{1,300}+)(?:[eE][-+]?\d{1,2}+)?(?![\w.])")
_WORD = regex(r"[A-Za-z_][\w.\-]{0,200}+")
_WORDS: dict[str, Any] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_ESCAPE = regex(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
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

    def __init__(self, text: str, position: int = 0, bare_keys: bool = False) -> None:
        self.text = text
        self.position = position
        self.cut = False
        self._bare_keys = bare_keys

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
        if mark and (mark in "\"'" or self.text.startswith(SPECIAL_QUOTE, self.position)):
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
        if self.text.startswith(SPECIAL_QUOTE, self.position):
            start = self.position + len(SPECIAL_QUOTE)
            end = self.text.find(SPECIAL_QUOTE, start)
            if end < 0:
                self.cut = True
                raise ValueError("a string is not closed")
            self.position = end + len(SPECIAL_QUOTE)
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
        return self._bare_keys and self.text.endswith(SPECIAL_QUOTE, 0, self.position)

    def _key(self) -> str:
        if self.text[self.position] not in "\"'" and not self.text.startswith(SPECIAL_QUOTE, self.position):
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


REPAIR_LIMIT = 65_536
"""Characters per reply that may be repaired: the library is slow and takes a guess at everything."""
_DECODER = json.JSONDecoder(strict=False)
_STRUCTURE = regex(r'["{}\[\]]')
_STRING = regex(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class JsonValue(NamedTuple):
    """A JSON value and where it ends; `cut` where the text ended inside of it."""

    value: Any
    end: int
    cut: bool = False


class WorkLimitReached(Exception):
    """The text has cost more than its length allows; what is left of it stays as it is."""


class Source:
    """A text and the work that may still be spent on it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._work = 8 * len(text) + 20_000
        self._repair = REPAIR_LIMIT
        self._found: dict[str, tuple[int, int]] = {}

    def spend(self, amount: int) -> None:
        """Counts work in characters looked at; WorkLimitReached when there was too much."""
        self._work -= amount + 40
        if self._work < 0:
            raise WorkLimitReached

    def find(self, literal: str, start: int) -> int:
        """Like str.find, but many searches for the same text cost as much as one."""
        since, found = self._found.get(literal, (start, start - 1))
        if since <= start and (found >= start or found == -1) and literal in self._found:
            return found
        found = self.text.find(literal, start)
        self.spend((len(self.text) if found < 0 else found) - start)
        self._found[literal] = (start, found)
        return found

    def search(self, pattern: re.Pattern[str], start: int) -> re.Match[str] | None:
        """Like pattern.search, at a price."""
        match = pattern.search(self.text, start)
        self.spend((match.end() if match else len(self.text)) - start)
        return match

    def skip_space(self, position: int) -> int:
        """The position of the next character that is no white space."""
        while position < len(self.text) and self.text[position].isspace():
            position += 1
        return position

    def find_first(self, literals: Sequence[str], start: int) -> int:
        """Where the first of some texts stands; -1 where none does."""
        places = [self.find(literal, start) for literal in literals]
        return min((place for place in places if place >= 0), default=-1)

    def skip_closing(self, closings: Sequence[str], position: int) -> int:
        """The position behind the mark that ends a call, if one comes next."""
        after = self.skip_space(position)
        found = next((mark for mark in closings if self.text.startswith(mark, after)), None)
        return after + len(found) if found else position

    def json_at(self, start: int, closing: int = -1) -> JsonValue | None:
        """The JSON value at a position, repaired where that makes nothing up.

        `closing` is where the mark that ends the call stands, if one was found: only then may an end that is
        missing be added, because without the mark the reply was cut off.
        """
        try:
            value, end = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            self.spend(error.pos - start)
        except (RecursionError, ValueError):
            self.spend(len(self.text) - start)
            return None
        else:
            self.spend(end - start)
            return JsonValue(value, end)
        return self._read_relaxed(start, closing)

    def _read_relaxed(self, start: int, closing: int) -> JsonValue | None:
        parser = RelaxedParser(self.text, start)
        try:
            return JsonValue(parser.value(), parser.position)
        except ValueError:
            pass
        finally:
            self.spend(parser.position - start)
        end = self._balance(start)
        if end < 0 and closing < 0:
            return JsonValue(None, len(self.text), cut=True)
        if end < 0 or 0 <= closing < end:
            end = closing
        part = self.text[start:end]
        if len(part) > self._repair:
            return None
        self._repair -= max(len(part), 512)
        value = repair_json(part)
        return None if value is None else JsonValue(value, end)

    def _balance(self, start: int) -> int:
        """Where the brackets that open at a position are closed; -1 where they are not."""
        depth, position = 0, start
        while match := _STRUCTURE.search(self.text, position):
            mark, position = match[0], match.end()
            if mark == '"':
                string = _STRING.match(self.text, match.start())
                if not string:
                    break
                position = string.end()
            elif mark in "{[":
                depth += 1
                if depth > DEPTH:
                    break
            else:
                depth -= 1
                if depth <= 0:
                    self.spend(position - start)
                    return position
        self.spend(len(self.text) - start)
        return -1


def read_json(text: str) -> Any:
    """The value of a whole text: strict, then as a literal, then without one level of escapes.

    ValueError where it is none of these.
    """
    text = text.strip()
    try:
        return _DECODER.decode(text)
    except (RecursionError, ValueError):
        pass
    try:
        return read_literal(text)
    except ValueError:
        if '\\"' not in text:
            raise
    try:
        return _DECODER.decode(_DECODER.decode(f'"{text}"'))
    except (RecursionError, TypeError) as error:
        raise ValueError("not a value") from error
