"""A whole answer from a model: the code in it, and the file as it would be with that code in its place."""

import ast
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any

from headgate.checks import Suspect
from headgate.first_use import dataclass, regex
from headgate.reading import (
    find_functions,
    insertion_points,
    parse_python,
    python_fingerprint,
    with_definitions,
)
from headgate.tree import FileChange

CODE: dict[str, Any] = {
    "type": "object",
    "properties": {"code": {"type": "string", "maxLength": 300}},
    "required": ["code"],
    "additionalProperties": False,
}
"""The form of an answer that is held to JSON."""
MOST_PLACES = 10
"""How many places one answer is tried in."""
MOST_LOOKED_AT = 40
_ALIKE = 0.6
"""A line that has less in common with the old one than this may be meant to stand beside it."""
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_DEFINITION = regex(r"\s*(?:@|(?:async\s+)?def\s)")
_FENCE = regex(r"^ {0,3}(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def code_in(reply: str) -> str:
    """The code of a reply: a JSON object's field `code`, its longest block, or all of it."""
    blocks = [found[2] for found in _FENCE.finditer(reply)]
    code = max(blocks, key=len).rstrip() if blocks else reply.strip("\n")
    held = _field(code)
    return code if held is None else held


def answered_sources(source: str, reply: str, suspect: Suspect, ask: str, *, is_python: bool) -> list[str]:
    """The file with the answer in its place, or in each of the places that it may be meant for.

    What does not parse where the rest did is left out, and so is what says the same as one before it.
    """
    if "\n" in source and source.count("\n") == source.count("\r\n"):
        plain = source.replace("\r\n", "\n")
        answered = answered_sources(plain, reply, suspect, ask, is_python=is_python)
        return [text.replace("\n", "\r\n") for text in answered]
    code = code_in(reply.replace("\r\n", "\n"))
    if not code.strip():
        return []
    found: dict[str, str] = {}
    for text in islice(_placed(source, code, suspect, ask, is_python), MOST_LOOKED_AT):
        if not is_python or parse_python(text):
            found.setdefault(code_identity(text, is_python=is_python), text)
        if len(found) == MOST_PLACES:
            break
    # A change that leaves the old code behind, unreachable or twice, is only taken if no other passes.
    rest = count_leftovers(source) if is_python else 0
    return sorted(found.values(), key=lambda text: is_python and count_leftovers(text) > rest)


def code_identity(source: str, *, is_python: bool) -> str:
    """Stands for what the code does: by its syntax tree, else by its lines without layout."""
    found = python_fingerprint(source) if is_python else ""
    return found or "\n".join(line.strip() for line in source.split("\n") if line.strip())


def code_mark(path: str, identity: str) -> str:
    """Stands for a file as it would be, in the log."""
    return sha256(f"{path}\n{identity}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _placed(source: str, code: str, suspect: Suspect, ask: str, is_python: bool) -> Iterable[str]:
    match ask:
        case "line" if is_python and _DEFINITION.match(code):
            return filter(None, [with_definitions(source, code, suspect.function)])
        case "line":
            return _at_line(source, code, suspect.line)
        case "missing":
            return (_inserted(source, code, *point) for point in insertion_points(source, suspect.function))
        case "function" if is_python:
            return filter(None, [with_definitions(source, code, suspect.function)])
        case "file" if not is_python or _is_whole(source, code):
            return [f"{code.rstrip()}\n"]
        case "file":
            return filter(None, [with_definitions(source, code)])
        case _:
            return ()


def _at_line(source: str, code: str, number: int) -> Iterator[str]:
    """In the place of a line and of the lines around it that the answer repeats; in the place of that line
    alone; and, where it has little in common with that line, before and after it."""
    lines = source.split("\n")
    if not 0 < number <= len(lines):
        return
    first, last = _repeated(lines, code.strip("\n").split("\n"), number)
    if first < last:
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        yield _inserted("\n".join([*lines[: first - 1], *lines[last:]]), code, first, indent)
    old = lines[number - 1]
    indent = old[: len(old) - len(old.lstrip())]
    new = textwrap.indent(textwrap.dedent(code.strip("\n")), indent).split("\n")
    yield "\n".join([*lines[: number - 1], *new, *lines[number:]])
    if first == last and SequenceMatcher(None, old.strip(), code.strip()).ratio() < _ALIKE:
        yield _inserted(source, code, number, indent)
        yield _inserted(source, code, number + 1, indent)


def _repeated(lines: list[str], code: list[str], number: int) -> tuple[int, int]:
    """The first and the last of the lines that an answer of several lines stands for."""
    around = range(max(number - len(code), 0), min(number - 1 + len(code), len(lines)))
    there, new = [lines[place].strip() for place in around], [line.strip() for line in code]
    matching = SequenceMatcher(None, there, new, autojunk=False).get_matching_blocks()
    same = [
        around[block.a + offset] + 1
        for block in matching
        for offset in range(block.size)
        if there[block.a + offset]
    ]
    return min([*same, number]), max([*same, number])


def count_leftovers(source: str) -> int:
    """Statements that nothing reaches, or that stand twice in a row."""
    module = parse_python(source)
    blocks = [
        block
        for node in (ast.walk(module) if module else ())
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list)
    ]
    pairs = [pair for block in blocks for pair in pairwise(block)]
    return sum(isinstance(one, _ENDS) or ast.dump(one) == ast.dump(other) for one, other in pairs)


def _inserted(source: str, code: str, number: int, indent: str) -> str:
    """With the code before a line, at an indentation."""
    lines = source.split("\n")
    new = textwrap.indent(textwrap.dedent(code.strip("\n")), indent).split("\n")
    return "\n".join([*lines[: number - 1], *new, *lines[number - 1 :]])


def _is_whole(source: str, written: str) -> bool:
    """Whether a file was written out, and not just the part of it that changes."""
    there = {function.name for function in find_functions(source)}
    return parse_python(written) is not None and there <= {
        function.name for function in find_functions(written)
    }


def _field(reply: str) -> str | None:
    """The text that a reply in the form CODE holds: empty in an object of another form, None in no object."""
    try:
        held = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    if not isinstance(held, dict):
        return None
    value = held.get("code")
    return value if isinstance(value, str) else ""


# Two changes to one text, made into one where they do not touch each other.


MOST_LINES = 3_000
"""The time that finding the changes takes grows with the square of this."""
_Edit = tuple[int, int, tuple[str, ...]]


def merge(base: str, one: str, other: str) -> str | None:
    """The base with the changes of both; None where they meet in the same or neighbouring lines."""
    lines = base.split("\n")
    if max(len(lines), one.count("\n"), other.count("\n")) > MOST_LINES:
        return None
    edits = sorted({*_edits(lines, one.split("\n")), *_edits(lines, other.split("\n"))})
    for (_, end, _), (start, _, _) in pairwise(edits):
        if start <= end:
            return None
    for start, end, new in reversed(edits):
        lines[start:end] = new
    return "\n".join(lines)


def _edits(lines: list[str], changed: list[str]) -> list[_Edit]:
    """The ranges of lines that are replaced, and with what."""
    matcher = SequenceMatcher(None, lines, changed, autojunk=False)
    return [
        (start, end, tuple(changed[new_start:new_end]))
        for tag, start, end, new_start, new_end in matcher.get_opcodes()
        if tag != "equal"
    ]


# Answers that fix a part: two that fix different parts are tried together, and nobody is asked.


@dataclass(frozen=True, slots=True)
class Partial:
    """A change after which fewer tests fail, and none that had passed before."""

    change: FileChange
    failing: frozenset[str]


def partners(kept: list[Partial], new: Partial) -> Iterator[tuple[FileChange, ...]]:
    """The changes to try together: with each earlier answer that fixes all that the new one leaves."""
    for earlier in kept:
        if earlier.failing & new.failing:
            continue
        if earlier.change.path != new.change.path:
            yield (earlier.change, new.change)
        elif (both := _merged(earlier.change, new.change)) is not None:
            yield (both,)


def _merged(one: FileChange, other: FileChange) -> FileChange | None:
    base, first, second = (
        (data or b"").decode("utf-8", "surrogateescape") for data in (one.before, one.after, other.after)
    )
    text = merge(base, first, second)
    return None if text is None else FileChange(one.path, one.before, text.encode("utf-8", "surrogateescape"))
