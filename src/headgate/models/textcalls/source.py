"""The text of a reply, read from any position for a bounded amount of work."""

import json
import re
from typing import Any, NamedTuple

import json_repair

from headgate.models.textcalls.relaxed import DEPTH, RelaxedParser, read_literal

REPAIR_LIMIT = 65_536
"""Characters per reply that may be repaired: the library is slow and takes a guess at everything."""
_DECODER = json.JSONDecoder(strict=False)
_STRUCTURE = re.compile(r'["{}\[\]]')
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class Value(NamedTuple):
    """A JSON value and where it ends; `cut` where the text ended inside of it."""

    value: Any
    end: int
    cut: bool = False


class OutOfWork(Exception):
    """The text has cost more than its length allows; what is left of it stays as it is."""


class Source:
    """A text and the work that may still be spent on it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._work = 8 * len(text) + 20_000
        self._repair = REPAIR_LIMIT
        self._found: dict[str, tuple[int, int]] = {}

    def spend(self, amount: int) -> None:
        """Counts work in characters looked at; OutOfWork when there was too much."""
        self._work -= amount + 40
        if self._work < 0:
            raise OutOfWork

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

    def json_at(self, start: int, closing: int = -1) -> Value | None:
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
            return Value(value, end)
        return self._mend(start, closing)

    def _mend(self, start: int, closing: int) -> Value | None:
        parser = RelaxedParser(self.text, start)
        try:
            return Value(parser.value(), parser.position)
        except ValueError:
            pass
        finally:
            self.spend(parser.position - start)
        end = self._balance(start)
        if end < 0 and closing < 0:
            return Value(None, len(self.text), cut=True)
        if end < 0 or 0 <= closing < end:
            end = closing
        part = self.text[start:end]
        if len(part) > self._repair:
            return None
        self._repair -= max(len(part), 512)
        value = repair_json(part)
        return None if value is None else Value(value, end)

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


def repair_json(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that a slightly broken text means; None where that would be guesswork."""
    text = text.strip()
    if not text.startswith(("{", "[")) or text.count('"') > 2_000 or _is_deep(text):
        return None
    try:
        value = json_repair.loads(text, skip_json_loads=True, stream_stable=True)
    except (RecursionError, ValueError):
        return None
    wanted = dict if text[0] == "{" else list
    if not isinstance(value, wanted) or not value or not _is_faithful(text, value):
        return None
    return value


def _is_deep(text: str) -> bool:
    depth = deepest = 0
    for match in _STRUCTURE.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match[0], 0)
        deepest = max(depth, deepest)
    return deepest > DEPTH


def _is_faithful(text: str, value: Any) -> bool:
    """Whether a repaired value says only what the text says: every string in it, every key with a colon."""
    match value:
        case dict():
            return all(
                re.search(re.escape(_quote(key)) + r"\\?[\"']?\s*:", text) is not None
                and _is_faithful(text, item)
                for key, item in value.items()
            )
        case list():
            return all(_is_faithful(text, item) for item in value)
        case str():
            # A word that stands in no quotes is no value: it was a value of another kind, or nothing.
            written = (value, _quote(value)) if value else ('"', "'")
            return any(f"{mark}{part}" in text for mark in "\"'" for part in written)
    return True


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


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
