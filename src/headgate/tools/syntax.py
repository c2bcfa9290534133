"""Telling a model at once when its edit broke the syntax of a file.

Only what can be parsed in process is looked at: a table from suffix to parser. What was broken before the
edit is no news, and a text too large or too deeply nested for a parser is not judged.
"""

import ast
import json
import re
import threading
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath

import yaml

from headgate.core import clean_text, show_path
from headgate.first_use import regex
from headgate.tree import FileChange

Parser = Callable[[bytes], str | None]
"""The first syntax error of a text as `line 12: expected ':'`, or None."""

_MOST_BYTES = 1_000_000
_MOST_TOLD = 10
_YAML_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAML_MOST_BYTES = _MOST_BYTES if yaml.__with_libyaml__ else 50_000
"""The parser written in Python reads some ten thousand bytes a second."""
_YAML_MOST_DEPTH = 200
"""The time that the C parser takes grows with the square of the depth."""
_PYTHON_MOST_BYTES = 300_000
_PYTHON_WIDEST = 20_000
"""The time that an f-string takes grows with the square of its length in some interpreters."""
_TOML_MOST_BYTES = 200_000
_TOML_MOST_DOTS = 100
"""In one line: the memory that a dotted key takes grows with the square of its parts."""
_JSON_WITH_COMMENTS = (
    "tsconfig*.json",
    "jsconfig*.json",
    "devcontainer.json",
    ".*rc.json",
    "api-extractor.json",
)
_TOML_PLACE = regex(r"(.*?) \(at (?:line (\d+), column \d+|end of document)\)$", re.DOTALL)

# Filters of the warnings module belong to the whole process: two threads must not swap them at once.
_warning_filters = threading.Lock()


def describe_new_errors(changes: Sequence[FileChange]) -> str:
    """What the changes broke, one sentence per file; empty when nothing did."""
    told = [sentence for change in changes if (sentence := _describe(change, changes))]
    if len(told) > _MOST_TOLD:
        told = [*told[:_MOST_TOLD], f"Warning: {len(told) - _MOST_TOLD} more files do not parse."]
    return "\n".join(told)


def _describe(change: FileChange, changes: Sequence[FileChange]) -> str:
    parser = parser_for(change.path)
    if parser is None or change.after is None or change.after == change.before:
        return ""
    error = _first_error(parser, change.after)
    if error is None:
        return ""
    name = show_path(change.path)
    if change.before is not None:
        was_broken = _first_error(parser, change.before) is not None
    else:
        # A move is a deletion and a creation: what was broken under the old name is no news.
        was_broken = any(
            other.after is None
            and other.before is not None
            and _first_error(parser, other.before) is not None
            for other in changes
            if PurePosixPath(other.path).suffix == PurePosixPath(change.path).suffix
        )
    if was_broken:
        return f"Note: {name} did not parse before and still does not: {error}"
    return f"Warning: {name} {'does not parse' if change.before is None else 'no longer parses'}: {error}"


def is_sound(path: str, text: str) -> bool:
    """Whether a text is what a file of this name should hold; False where that cannot be told, too.

    Python is compiled, not only parsed: a `return` outside of a function is an error as well.
    """
    parser = parser_for(path)
    data = text.encode("utf-8", "surrogateescape")
    if parser is None or len(data) > _MOST_BYTES or _first_error(parser, data) is not None:
        return False
    return parser is not _python_error or (len(data) <= _PYTHON_MOST_BYTES and _compiles(data))


def _compiles(data: bytes) -> bool:
    with _warning_filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, "<edit>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def parser_for(path: str) -> Parser | None:
    """The parser for a file, by its name."""
    name = PurePosixPath(path).name
    parts = PurePosixPath(path).parts
    if ".vscode" in parts or any(fnmatch(name, pattern) for pattern in _JSON_WITH_COMMENTS):
        return None
    return PARSERS.get(PurePosixPath(path).suffix.lower())


def _first_error(parser: Parser, data: bytes) -> str | None:
    if len(data) > _MOST_BYTES:
        return None
    try:
        error = parser(data)
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        return f"line {line}: not valid UTF-8"
    except (RecursionError, MemoryError):
        # Nested deeper than this interpreter can follow: says nothing about the syntax.
        return None
    return None if error is None else clean_text(" ".join(error.split()))[:300]


def _python_error(data: bytes) -> str | None:
    if len(data) > _PYTHON_MOST_BYTES or any(len(line) > _PYTHON_WIDEST for line in data.split(b"\n")):
        return None
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        return f"line {line}: NUL byte"
    with _warning_filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except SyntaxError as error:
            return f"line {error.lineno or 1}: {error.msg}"
        except ValueError as error:
            return f"line 1: {error}"
    return None


def _json_error(data: bytes) -> str | None:
    text = data.decode("utf-8-sig")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except ValueError:
        # A number with more digits than the interpreter converts is still well-formed.
        return None
    return None


def _toml_error(data: bytes) -> str | None:
    if len(data) > _TOML_MOST_BYTES or any(line.count(b".") > _TOML_MOST_DOTS for line in data.split(b"\n")):
        return None
    text = data.decode()
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _TOML_PLACE.match(str(error))
        if match is None:
            return f"line 1: {error}"
        return f"line {match[2] or max(len(text.splitlines()), 1)}: {match[1]}"
    except ValueError:
        return None
    return None


def _yaml_error(data: bytes) -> str | None:
    """Reads events, not nodes: composing nodes recurses, and deep nesting would take the process down."""
    if len(data) > _YAML_MOST_BYTES:
        return None
    anchors: set[str] = set()
    depth = 0
    try:
        for event in yaml.parse(data.decode("utf-8-sig"), Loader=_YAML_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _YAML_MOST_DEPTH:
                return None
            if isinstance(event, yaml.DocumentStartEvent):
                anchors.clear()
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in anchors:
                    line = event.start_mark.line + 1 if event.start_mark else 1
                    return f"line {line}: undefined alias `{event.anchor}`"
            elif isinstance(event, yaml.NodeEvent) and event.anchor:
                anchors.add(event.anchor)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        return f"line {line}: {error.problem or error.context}"
    except yaml.YAMLError as error:
        return f"line 1: {error}"
    return None


PARSERS: Mapping[str, Parser] = {
    ".py": _python_error,
    ".pyi": _python_error,
    ".json": _json_error,
    ".toml": _toml_error,
    ".yaml": _yaml_error,
    ".yml": _yaml_error,
}
"""By suffix; more languages are more entries."""
