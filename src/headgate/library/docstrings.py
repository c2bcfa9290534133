"""Docstrings as models read them: what a function does, and what its parameters are, in the common styles."""

import re

from headgate.first_use import regex

_GOOGLE = regex(
    r"^(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Returns?|Raises"
    r"|Yields?|Examples?|Notes?|Warnings?|See Also|References|Todo|Attributes):\s*$"
)
_NUMPY = regex(
    r"^(Parameters|Other Parameters|Returns|Raises|Yields|Examples|Notes|Warnings|See Also|References"
    r"|Attributes)\s*$"
)
_SPHINX = regex(r"^:(\w+)(?:\s+([^:]*?))?\s*:\s*(.*)$")
_ABOUT_PARAMETERS = ("args", "arguments", "parameters", "params", "other parameters", "keyword args")
_GOOGLE_ENTRY = regex(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = regex(r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a docstring says before its sections, and what it says about each parameter."""
    lines = text.splitlines()
    said: list[str] = []
    about: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if field := _SPHINX.match(line):
            block, at = _block(lines, at + 1)
            if field[1] in ("param", "parameter", "arg", "argument", "key", "keyword") and field[2]:
                about[field[2].split()[-1].lstrip("*")] = _joined([field[3], *block])
        elif _is_underlined(lines, at):
            block, at = _numpy_block(lines, at + 2)
            if line.strip().lower() in _ABOUT_PARAMETERS:
                about |= _entries(block, _NUMPY_ENTRY)
        elif heading := _GOOGLE.match(line):
            block, at = _block(lines, at + 1)
            if heading[1].lower() in (*_ABOUT_PARAMETERS, "keyword arguments"):
                about |= _entries(block, _GOOGLE_ENTRY)
        else:
            said.append(line)
            at += 1
    return "\n".join(said).strip(), {name: words for name, words in about.items() if words}


def _is_underlined(lines: list[str], at: int) -> bool:
    """Whether a section begins there, as numpy writes it."""
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return bool(_NUMPY.match(lines[at])) and len(below) > 2 and not below.strip("-= ")


def _block(lines: list[str], at: int) -> tuple[list[str], int]:
    """The lines that stand further in, and empty ones between them; and where they end."""
    end = at
    while end < len(lines) and (not lines[end].strip() or lines[end][:1].isspace()):
        end += 1
    return lines[at:end], end


def _numpy_block(lines: list[str], at: int) -> tuple[list[str], int]:
    end = at
    while end < len(lines) and not _is_underlined(lines, end):
        end += 1
    return lines[at:end], end


def _entries(block: list[str], form: re.Pattern[str]) -> dict[str, str]:
    """The words about each name: those on its line, if the style has any there, and those further in."""
    filled = [line for line in block if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    found: dict[str, list[str]] = {}
    names: tuple[str, ...] = ()
    for line in filled:
        is_entry = len(line) - len(line.lstrip()) == margin
        if is_entry and (entry := form.match(line.strip())):
            names = tuple(name.strip().lstrip("*") for name in entry[1].split(","))
            words = [entry[2]] if form.groups > 1 else []
            found |= {name: list(words) for name in names}
        elif is_entry:
            names = ()
        else:
            for name in names:
                found[name].append(line)
    return {name: _joined(words) for name, words in found.items()}


def _joined(words: list[str]) -> str:
    return " ".join(part for line in words if (part := line.strip()))
