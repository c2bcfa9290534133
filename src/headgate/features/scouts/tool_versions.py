"""Which programs and packages a project's files ask for, and whether a version is what they ask for."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

from headgate.first_use import dataclass, regex

ReadFile = Callable[[str], str]
"""Returns the text of a file of the project; empty if there is none that can be read."""


@dataclass(frozen=True, slots=True)
class NeededTool:
    """A program that the project needs in some version."""

    program: str
    wanted: str
    """As the file says it: `>=3.11`."""
    said_by: str

    def accepts(self, present: str) -> bool | None:
        """Whether a version is what the file asks for; None if that cannot be told."""
        return is_satisfied(self.wanted, present, whole=self.said_by in _WHOLE)


_WHOLE = ("pyproject.toml", "Gemfile")
"""Files in which a version without its last numbers means that these are 0."""
_RUBY = regex(r"^[ \t]*ruby[ \t]+[\"']([^\"'\n]+)[\"']", re.MULTILINE)
_GO = regex(r"^go\s+(\d[\w.]*)", re.MULTILINE)
_JAVA = regex(r"<(?:maven\.compiler\.release|java\.version)>\s*(\d[\w.]*)")
_MOST_WANTED = 60
"""Characters of a version that is asked for."""
_PINS = (
    (".python-version", "python3"),
    (".nvmrc", "node"),
    (".node-version", "node"),
    (".ruby-version", "ruby"),
)


def needed_tools(read: ReadFile) -> tuple[NeededTool, ...]:
    """What the files at the project's root ask for. A file that cannot be understood asks for nothing."""
    found = [tool for tool in _asked_for(read) if _is_version(tool.wanted)]
    return tuple({(tool.program, tool.wanted): tool for tool in found}.values())


def _is_version(wanted: str) -> bool:
    """Whether it can be told as a version. Other text from a file would be read as ours."""
    return len(wanted) <= _MOST_WANTED and wanted.isprintable() and re.search(r"\d", wanted) is not None


def _asked_for(read: ReadFile) -> Iterator[NeededTool]:
    project = _table(_toml(read("pyproject.toml")), "project")
    yield NeededTool("python3", str(project.get("requires-python", "")), "pyproject.toml")
    engines = _table(_json(read("package.json")), "engines")
    yield NeededTool("node", str(engines.get("node", "")), "package.json")
    if go := _GO.search(read("go.mod")):
        yield NeededTool("go", f">={go[1]}", "go.mod")
    package = _table(_toml(read("Cargo.toml")), "package")
    if rust := package.get("rust-version"):
        yield NeededTool("rustc", f">={rust}", "Cargo.toml")
    if java := _JAVA.search(read("pom.xml")):
        yield NeededTool("java", f">={java[1]}", "pom.xml")
    if ruby := _RUBY.search(read("Gemfile")):
        yield NeededTool("ruby", ruby[1], "Gemfile")
    for file, program in _PINS:
        line = read(file).strip().splitlines()[:1]
        yield NeededTool(program, f"=={line[0].strip().lstrip('v')}" if line else "", file)


def names_packages(package: str) -> bool:
    """Whether package.json, given as text, asks for packages."""
    data = _json(package)
    return any(_table(data, name) for name in ("dependencies", "devDependencies"))


def _toml(text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # the former also for a number with thousands of digits
        return {}


def _json(text: str) -> Mapping[str, object]:
    try:
        data = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _table(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


VERSION = regex(r"\d+(?:\.\d+){0,3}")
_CLAUSE = regex(r"\s*(>=|<=|==|~=|~>|!=|\^|~|>|<|=)?\s*v?(\d+(?:\.(?:\d+|[xX*]))*)\s*")
_WILDCARD = regex(r"\.[xX*]")


def is_satisfied(wanted: str, present: str, *, whole: bool = False) -> bool | None:
    """Whether a version is what was asked for; None if that cannot be told.

    `whole`: `1.2` is 1.2.0, as for Python and Ruby; otherwise any 1.2, as for npm and for pins.
    """
    found = VERSION.search(present)
    if not found:
        return None
    have = _numbers(found[0])
    verdicts = [_is_any(alternative, have, whole) for alternative in wanted.split("||")]
    if True in verdicts:
        return True
    return None if None in verdicts else False


def _is_any(wanted: str, have: tuple[int, ...], whole: bool) -> bool | None:
    clauses = [
        clause for clause in re.split(r",|(?<=[\dxX*])\s+(?=[<>=~^!])", wanted.strip()) if clause.strip()
    ]
    verdicts = [_holds(clause, have, whole) for clause in clauses]
    if not verdicts or None in verdicts:
        return None
    return all(verdicts)


def _holds(clause: str, have: tuple[int, ...], whole: bool) -> bool | None:
    found = _CLAUSE.fullmatch(clause)
    if not found:
        return None
    sign, (number, *wildcard) = found[1] or "==", _WILDCARD.split(found[2], maxsplit=1)
    want = _numbers(number)
    given = len(want)
    size = max(given, len(have)) if whole and not wildcard else given
    want, have = _padded(want, size), _padded(have, size)[:size]
    match sign:
        case ">=":
            return have >= want
        case ">":
            return have > want
        case "<=":
            return have <= want
        case "<":
            return have < want
        case "!=":
            return have != want
        case "^":
            same = next((place for place, part in enumerate(want, 1) if part), given)
        case "~":
            same = min(given, 2)
        case "~=" | "~>":
            same = max(given - 1, 1)
        case _:
            return have == want
    return have >= want and have[:same] == want[:same]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _padded(numbers: tuple[int, ...], size: int) -> tuple[int, ...]:
    return numbers + (0,) * (size - len(numbers))
