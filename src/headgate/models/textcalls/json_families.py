"""Families that write calls as JSON between marks, or as Python."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.core import DONE_TOOL, ESCALATE_TOOL, EXECUTE_TOOL
from headgate.first_use import regex
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import DECISIONS, CallAttempt, CallsFound, Fault, Opening, guess_name
from headgate.models.textcalls.source import RelaxedParser, Source, read_json

NAME_KEYS = ("name", "tool_name", "function", "function_name", "tool", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "action_input", "tool_input", "kwargs")
ID_KEYS = ("id", "tool_call_id", "call_id")


def attempts_in(value: Any, keyed: bool = False) -> tuple[CallAttempt, ...] | None:
    """The calls that a JSON value holds; None where some part of it is none.

    `keyed`: an object may also name the tool by its only key, `{"ls": {"path": "."}}`.
    """
    items = value if isinstance(value, list) else [value]
    found = [_read_object(item, keyed) for item in _unwrap(items) if isinstance(item, dict)]
    if not found or len(found) != len(list(_unwrap(items))):
        return None
    calls = tuple(item for item in found if item)
    return calls if len(calls) == len(found) else None


def read_arguments(value: Any) -> dict[str, Any] | None:
    """Arguments as an object: they may be a string that holds one."""
    if isinstance(value, str):
        try:
            value = read_json(value) if value.strip() else {}
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _unwrap(items: list[Any]) -> Iterator[Any]:
    for item in items:
        inner = item.get("tool_calls") if isinstance(item, dict) else None
        if isinstance(inner, list) and len(item) <= 2:
            yield from inner
        else:
            yield item


def _read_decision(item: Mapping[str, Any]) -> CallAttempt:
    """A decision as a call: of the tool that it names, or of the one that means the same."""
    reasoning = str(item.get("reasoning") or item.get("reason") or "")
    match str(item.get("action", "")).upper():
        case "CALL_TOOL":
            return _read_named_tool(item) or CallAttempt(str(item["_type"]))
        case "DONE" | "COMPLETE":
            return CallAttempt(DONE_TOOL, {"summary": str(item.get("summary") or reasoning or "Done.")})
        case "ESCALATE":
            return CallAttempt(ESCALATE_TOOL, {"reason": reasoning or "No reason was given."})
        case "EXECUTE":
            return CallAttempt(
                EXECUTE_TOOL, {key: item[key] for key in ("task_type", "goals") if key in item}
            )
        case _:
            return CallAttempt(str(item["_type"]))


def _read_named_tool(item: Mapping[str, Any]) -> CallAttempt | None:
    """The call in a decision: `tool` with its name and arguments, or its name with the arguments beside."""
    tool = item.get("tool")
    if isinstance(tool, str):
        tool = {"name": tool, **{key: item[key] for key in ARGUMENT_KEYS if key in item}}
    if not isinstance(tool, dict) or tool.get("_type") in DECISIONS:
        return None
    return _read_object(tool, keyed=False)


def _read_object(item: Mapping[str, Any], keyed: bool) -> CallAttempt | None:
    if item.get("_type") in DECISIONS:
        return _read_decision(item)
    ids = (item[key] for key in ID_KEYS if isinstance(item.get(key), str))
    call_id = next(ids, "")
    inner = item.get("function")
    if isinstance(inner, dict):
        item = inner
    name = next((item[key] for key in NAME_KEYS if isinstance(item.get(key), str)), None)
    if name is None:
        (key, value), *rest = item.items() or [("", None)]
        return CallAttempt(key, value, call_id) if keyed and isinstance(value, dict) and not rest else None
    if "description" in item:
        # The description of a tool, not a call to it.
        return None
    given = [item[key] for key in ARGUMENT_KEYS if key in item]
    if not given:
        return CallAttempt(name, None, call_id)
    arguments = read_arguments(given[0])
    if arguments is None:
        return CallAttempt(name, None, call_id, "unreadable")
    if arguments.get("type") == "object" and isinstance(arguments.get("properties"), dict):
        return None
    return CallAttempt(name, arguments, call_id)


# Calls written as Python: `[read_file(path="a.py"), ls()]`, and Gemma's `call:ls{path:...}`.


_GEMMA_NAME = regex(r"\s*+(?:call[:\s]\s*+)?([\w.\-]{1,128}+)\s*+(?=\{)")
_KEYWORD = regex(r"\s*+([A-Za-z_]\w{0,128}+)\s*+=(?!=)")

CALLS = 500
"""Calls in one place: no model means more."""


def read_gemma(source: Source, opening: Opening, book: ToolBook) -> CallsFound | None:
    """Gemma 4: `call:NAME{key:value}` with a quotation mark of its own."""
    head = _GEMMA_NAME.match(source.text, opening.end)
    if not head:
        return None
    parser = RelaxedParser(source.text, head.end(), bare_keys=True)
    try:
        arguments = parser.value()
    except ValueError:
        fault: Fault = "cut_off" if parser.cut else "unreadable"
        return CallsFound(parser.position, (CallAttempt(head[1], fault=fault),))
    finally:
        source.spend(parser.position - head.end())
    end = source.skip_closing(opening.closings, parser.position)
    return CallsFound(end, (CallAttempt(head[1], arguments),))


def read_pythonic(source: Source, start: int, book: ToolBook) -> CallsFound | None:
    """Calls in a list, or one call; None where there is something else. An end that is missing is a cut."""
    parser = RelaxedParser(source.text, start)
    attempts: list[CallAttempt] = []
    name = ""
    try:
        bracket = parser.take("[")
        while True:
            name = ""
            name = parser.word()
            if not parser.take("("):
                raise parser.error("not a call")
            attempts.append(CallAttempt(name, _read_arguments(parser, name, book)))
            if not bracket or parser.take("]"):
                return CallsFound(parser.position, tuple(attempts))
            if not parser.take(","):
                raise parser.error("a list is not closed")
    except ValueError:
        if parser.cut and book.find(name):
            return CallsFound(len(source.text), (*attempts, CallAttempt(name, fault="cut_off")))
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


# Families that write JSON between marks: most of them.


_NAME_ALONE = regex(r"\s*+([\w.\-]{1,128}+)\s*+(?:\[ARGS\])?\s*+(?=\Z|\[TOOL_CALLS\]|</s>)")


def read_marked(
    source: Source, opening: Opening, book: ToolBook, *, keyed: bool = False, pythonic: bool = False
) -> CallsFound | None:
    """One call, a list of calls, or calls after each other, as JSON or as Python.

    They are read up to the closing mark, or to the end of the last one where the mark is missing.
    """
    text, position = source.text, source.skip_space(opening.end)
    attempts: list[CallAttempt] = []
    while text[position : position + 1] in ("{", "[") and len(attempts) < CALLS:
        after = source.skip_space(position + 1)
        value = None
        if not (pythonic and text[after : after + 1].isalpha()):
            value = source.json_at(position, source.find_first(opening.closings, position))
        if value is None and pythonic:
            if not (found := read_pythonic(source, position, book)):
                return None
            attempts += found.attempts
            position = source.skip_space(found.end)
        elif value is None:
            unreadable = CallAttempt(guess_name(text, position), fault="unreadable")
            return CallsFound(position + 1, (unreadable,))
        elif value.cut:
            attempts.append(CallAttempt(guess_name(text, position), fault="cut_off"))
            return CallsFound(value.end, tuple(attempts))
        else:
            calls = attempts_in(value.value, keyed)
            if calls is None:
                break
            attempts += calls
            position = _skip_separator(source, value.end)
    end = source.skip_closing(opening.closings, position)
    return CallsFound(end, tuple(attempts)) if attempts else None


def _skip_separator(source: Source, position: int) -> int:
    position = source.skip_space(position)
    if source.text[position : position + 1] in (";", ","):
        following = source.skip_space(position + 1)
        if source.text[following : following + 1] == "{":
            return following
    return position


def read_behind_name(
    source: Source, opening: Opening, book: ToolBook, head: re.Pattern[str]
) -> CallsFound | None:
    """A name, then its arguments as JSON. `head` matches what stands before them: groups `name` and `id`."""
    named = head.match(source.text, opening.end)
    if not named:
        alone = None if opening.closings else _NAME_ALONE.match(source.text, opening.end)
        known = alone and book.find(alone[1])
        return CallsFound(alone.end(), (CallAttempt(alone[1]),)) if alone and known else None
    call_id = named.groupdict().get("id") or ""
    found = read_named(source, named["name"], named.end(), opening.closings, call_id)
    (call,) = found.attempts
    if call.name.isdigit() and call.arguments and (tool := book.find_by_keys(call.arguments)):
        return CallsFound(found.end, (replace(call, name=tool.name),))
    return found


def read_named(
    source: Source, name: str, start: int, closings: Sequence[str] = (), call_id: str = ""
) -> CallsFound:
    """The call of a tool whose arguments are the JSON at a position, up to the mark that ends it."""
    value = source.json_at(start, source.find_first(closings, start))
    if value is None:
        return CallsFound(start, (CallAttempt(name, None, call_id, "unreadable"),))
    if value.cut:
        return CallsFound(value.end, (CallAttempt(name, None, call_id, "cut_off"),))
    arguments = read_arguments(value.value)
    fault: Fault = "" if arguments is not None else "unreadable"
    end = source.skip_closing(closings, value.end)
    return CallsFound(end, (CallAttempt(name, arguments, call_id, fault),))
