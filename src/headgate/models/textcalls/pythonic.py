"""Calls written as Python: `[read_file(path="a.py"), ls()]`, and Gemma's `call:ls{path:...}`."""

import re
from collections.abc import Sequence
from typing import Any

from headgate.models.textcalls.relaxed import RelaxedParser
from headgate.models.textcalls.result import Attempt, Fault, Found
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.toolbook import ToolBook

_GEMMA_NAME = re.compile(r"\s*+(?:call[:\s]\s*+)?([\w.\-]{1,128}+)\s*+(?=\{)")
_CALL_HEAD = re.compile(r"[\s,]*+([A-Za-z_][\w.\-]{0,128}+)\(")
_ROW = re.compile(r"\n\s*+(?=[A-Za-z_][\w.\-]{0,128}+\()")
_KEYWORD = re.compile(r"\s*+([A-Za-z_]\w{0,128}+)\s*+=(?!=)")

ROWS = 500
"""Calls in one place: no model means more."""


class PythonicMark:
    """A mark, then Python calls."""

    def __init__(self, *closings: str) -> None:
        self.closings = closings

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads a list of calls, or one call without the brackets."""
        found = read_pythonic(source, opening.end(), book)
        return found and _closed(source, found, self.closings)


class PythonicRows:
    """A mark, then Python calls, one on a line: OLMo 3."""

    def __init__(self, *closings: str) -> None:
        self.closings = closings

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads calls up to the closing mark. One that cannot be read does not spoil the others."""
        position = opening.end()
        attempts: list[Attempt] = []
        while len(attempts) < ROWS and (head := _CALL_HEAD.match(source.text, position)):
            found = read_pythonic(source, head.start(1), book)
            if found:
                attempts += found.attempts
                position = found.end
                continue
            attempts.append(Attempt(head[1], None, "", "unreadable"))
            closing = min(
                (at for mark in self.closings if (at := source.find(mark, head.end())) >= 0), default=-1
            )
            row = _ROW.search(source.text, head.end(), closing if closing >= 0 else len(source.text))
            position = row.end() if row else closing if closing >= 0 else head.end()
            source.spend(position - head.start())
        return _closed(source, Found(position, tuple(attempts)), self.closings) if attempts else None


class GemmaCall:
    """Gemma 4 and FunctionGemma: `call:NAME{key:value}` with a quotation mark of its own."""

    def __init__(self, quote: str, closing: str) -> None:
        self._quote = quote
        self.closings = (closing,)

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads one call."""
        head = _GEMMA_NAME.match(source.text, opening.end())
        if not head:
            return None
        parser = RelaxedParser(source.text, head.end(), bare_keys=True, quote=self._quote)
        try:
            arguments = parser.value()
        except ValueError:
            fault: Fault = "cut_off" if parser.cut else "unreadable"
            return Found(parser.position, (Attempt(head[1], None, "", fault),))
        finally:
            source.spend(parser.position - head.end())
        return _closed(source, Found(parser.position, (Attempt(head[1], arguments),)), self.closings)


def _closed(source: Source, found: Found, closings: Sequence[str]) -> Found:
    """What was found, with the mark that ends it."""
    end = source.skip_space(found.end)
    closing = next((mark for mark in closings if source.text.startswith(mark, end)), None)
    return Found(end + len(closing), found.attempts) if closing else found


def read_pythonic(source: Source, start: int, book: ToolBook) -> Found | None:
    """Calls in a list, or one call; None where there is something else. An end that is missing is a cut."""
    parser = RelaxedParser(source.text, start)
    attempts: list[Attempt] = []
    name = ""
    try:
        bracket = parser.take("[")
        while True:
            name = ""
            name = parser.word()
            if not parser.take("("):
                raise parser.error("not a call")
            attempts.append(Attempt(name, _read_arguments(parser, name, book)))
            if not bracket or parser.take("]"):
                return Found(parser.position, tuple(attempts))
            if not parser.take(","):
                raise parser.error("a list is not closed")
    except ValueError:
        if parser.cut and book.find(name):
            return Found(len(source.text), (*attempts, Attempt(name, None, "", "cut_off")))
        return None
    finally:
        source.spend(parser.position - start)


def _read_arguments(parser: RelaxedParser, name: str, book: ToolBook) -> dict[str, Any]:
    places = list(book.properties(name))
    arguments: dict[str, Any] = {}
    while not parser.take(")"):
        if keyword := _KEYWORD.match(parser.text, parser.position):
            parser.position = keyword.end()
            arguments[keyword[1]] = parser.value()
        elif len(arguments) < len(places):
            arguments[places[len(arguments)]] = parser.value()
        else:
            raise parser.error("too many arguments")
        if not parser.take(",") and parser.skip_space() != ")":
            raise parser.error("a comma is missing")
    return arguments
