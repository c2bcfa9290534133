"""Calls written as Python: `[read_file(path="a.py"), ls()]`, and Gemma's `call:ls{path:...}`."""

import re
from typing import Any

from headgate.models.textcalls.relaxed import RelaxedParser
from headgate.models.textcalls.result import Attempt, Fault, Found
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.toolbook import ToolBook

_GEMMA_NAME = re.compile(r"\s*+([\w.\-]{1,128}+)\s*+(?=\{)")
_GEMMA_END = re.compile(r"\s*+(?:<tool_call\|>)?")
_KEYWORD = re.compile(r"\s*+([A-Za-z_]\w{0,128}+)\s*+=(?!=)")


class PythonicMark:
    """A mark, then Python calls."""

    def __init__(self, closing: str) -> None:
        self._closing = closing

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads a list of calls, or one call without the brackets."""
        found = read_pythonic(source, opening.end(), book)
        if not found:
            return None
        end = source.skip_space(found.end)
        if self._closing and source.text.startswith(self._closing, end):
            return Found(end + len(self._closing), found.attempts)
        return found


class GemmaCall:
    """Gemma 4: `call:NAME{key:value}` with a quotation mark of its own."""

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads one call."""
        head = _GEMMA_NAME.match(source.text, opening.end())
        if not head:
            return None
        parser = RelaxedParser(source.text, head.end(), bare_keys=True)
        try:
            arguments = parser.value()
        except ValueError:
            fault: Fault = "cut_off" if parser.cut else "unreadable"
            return Found(parser.position, (Attempt(head[1], None, "", fault),))
        finally:
            source.spend(parser.position - head.end())
        end = _GEMMA_END.match(source.text, parser.position)
        return Found(end.end() if end else parser.position, (Attempt(head[1], arguments),))


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
                raise parser.error("a list has no end")
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
