"""How a project itself says that it is tested and checked: its Makefile, its scripts, its CI. Nothing is run.

Only commands of known tools are taken, and only those that change no file: what a recipe does besides is the
project's own business. The order is that of `_SOURCES`: what people type comes before what a CI does.
"""

import ast
import configparser
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from headgate.config.projects import read_text, read_toml
from headgate.first_use import dataclass, regex

Has = Callable[[str], bool]
"""Whether a program is there, by the path or the name that a command has."""

_TESTERS = frozenset({"pytest", "unittest", "go", "cargo", "ctest", "mvn", "gradle", "phpunit", "rspec"})
_TYPES = frozenset({"mypy", "pyright", "ty", "pyrefly"})
_LINTER_NAMES = "ruff flake8 pylint pyflakes golangci-lint staticcheck shellcheck yamllint cppcheck"
_LINTERS = frozenset(_LINTER_NAMES.split())
_FORMATTERS = frozenset({"black", "isort"})
_TARGETS = regex(r"tests?|check|lint(er|ing)?|flake8|ruff|types?|type-?check(ing)?|mypy|style|qa|unit")
"""Names under which people keep what this is about."""
_RUNNERS = (("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("rye", "run"))
_NOT_SIMPLE = regex(r"[|;<>`$(){}\\]|&(?!&)|(?<!&)&$")
_PYTHON = regex(r"python(\d(\.\d+)?)?")
_PLUGINS = regex(r"--(cov|dist|numprocesses|reruns|timeout|junit|html)|-n(auto|logical|\d+)$")
_POSARGS = regex(r"\{(?:posargs|args)(?::([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class OwnStep:
    """A step as the project has it."""

    name: str
    """`tests`, `lint` or `types`."""
    command: str
    source: str
    """The file that says so."""


def find_own_steps(folder: Path, interpreter: str, has: Has) -> dict[str, OwnStep]:
    """The steps that a project's own files name, by name; a step whose program is not there is left out.

    `interpreter` is the Python to run its modules with.
    """
    found: dict[str, OwnStep] = {}
    for read in _SOURCES:
        steps: dict[str, dict[str, str]] = {}
        for source, line in read(folder):
            step = _read_line(line, folder, interpreter, has)
            if step and step[0] not in found:
                steps.setdefault(step[0], {}).setdefault(step[1], source)
        for name, sources in steps.items():
            # Several commands for tests are mostly several ways to run them.
            commands = list(sources)[:1] if name == "tests" else list(sources)
            found[name] = OwnStep(name, " && ".join(commands), sources[commands[0]])
    return found


def _read_line(line: str, folder: Path, interpreter: str, has: Has) -> tuple[str, str] | None:
    """The step that a command is, and the command as it can be run here; None where it is none."""
    line = _POSARGS.sub(lambda match: match[1] or "", line).strip()
    if not line or _NOT_SIMPLE.search(line.replace("&&", "")) or "&&" in line:
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    runner = next((list(pair) for pair in _RUNNERS if tuple(words[:2]) == pair), [])
    rest = words[len(runner) :]
    by_python = len(rest) > 2 and bool(_PYTHON.fullmatch(rest[0])) and rest[1] == "-m"
    rest = rest[2:] if by_python else rest
    if not rest:
        return None
    tool, arguments = rest[0], _without_plugins(rest[1:]) if rest[0] == "pytest" else rest[1:]
    name = _name_step(tool, arguments)
    if name is None:
        return None
    called = _call(tool, runner, folder, interpreter, has)
    return (name, " ".join((*called, *map(shlex.quote, arguments)))) if called else None


def _without_plugins(arguments: list[str]) -> list[str]:
    """What pytest is given, without options of plugins that may not be there: none decides what is tested."""
    kept: list[str] = []
    for word in arguments:
        if kept and kept[-1] == "-n":
            kept.pop()
        elif not _PLUGINS.match(word):
            kept.append(word)
    return kept


def _name_step(tool: str, arguments: list[str]) -> str | None:
    """Which step a command of a tool is; None for one that is none, or that would change files."""
    first = next(iter(arguments), "")
    if "--fix" in arguments or "--write" in arguments or "--watch" in arguments:
        return None
    if tool in _TESTERS:
        if tool in ("go", "cargo"):
            return {"test": "tests", "vet": "vet", "clippy": "lint"}.get(first)
        return "tests" if tool not in ("mvn", "gradle") or "test" in arguments else None
    if tool in _TYPES:
        return "types"
    is_formatter = tool in _FORMATTERS or (tool == "ruff" and first == "format")
    if is_formatter and not {"--check", "--check-only", "--diff"} & set(arguments):
        return None
    return "lint" if is_formatter or tool in _LINTERS else None


def _call(tool: str, runner: list[str], folder: Path, interpreter: str, has: Has) -> list[str] | None:
    """How the tool is called here; None where it is not there."""
    if runner:
        return [*runner, tool] if has(runner[0]) else None
    if tool in ("pytest", "unittest"):
        return [interpreter, "-m", tool]
    venv = interpreter.removesuffix("/bin/python")
    if venv != interpreter and (folder / venv / "bin" / tool).exists():
        return [f"{venv}/bin/{tool}"]
    if interpreter.endswith(" run python"):
        return [interpreter, "-m", tool] if has(interpreter.split(maxsplit=1)[0]) else None
    return [tool] if has(tool) else None


def _from_recipes(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """From the first file of these names: a Makefile, or one of `just`, which is written alike."""
    name = next((name for name in names if (folder / name).is_file()), "")
    text = read_text(folder / name).replace("\\\n", " ")
    variables = dict(re.findall(r"^([A-Za-z_]\w*)\s*[:?]?=[ \t]*([^\n#]*?)[ \t]*$", text, re.MULTILINE))
    yield from ((name, line) for line in _recipes(text, variables))


def _recipes(text: str, variables: Mapping[str, str]) -> Iterator[str]:
    """The commands of the targets that are about tests and checks."""
    wanted = False
    for line in text.split("\n"):
        if line[:1] in ("\t", " ") and line.strip():
            command = line.strip()
            if wanted and not command.startswith(("-", "#")):
                yield from _expand(command.lstrip("@").strip(), variables).split(" && ")
        elif rule := re.match(r"@?([\w.-]+(?:[ \t]+[\w.-]+)*?)(?:[ \t]+[^:=\n]*)?[ \t]*::?(?!=)", line):
            wanted = any(_TARGETS.fullmatch(target) for target in rule[1].split())
        elif line.strip() and not line.startswith("#"):
            wanted = False


def _expand(command: str, variables: Mapping[str, str]) -> str:
    for _ in range(3):
        command = re.sub(r"\$[({](\w+)[)}]", lambda match: variables.get(match[1], match[0]), command)
    return command


def _from_tox(folder: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(read_text(folder / "tox.ini"))
    except configparser.Error:
        return
    for section in parser.sections():
        name = section.partition(":")[2]
        if section == "testenv" or (section.startswith("testenv:") and _TARGETS.fullmatch(name)):
            for line in parser.get(section, "commands", fallback="").split("\n"):
                yield "tox.ini", line


def _from_nox(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(read_text(folder / "noxfile.py"))
    except (SyntaxError, ValueError, RecursionError):
        return
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        if not _TARGETS.fullmatch(function.name):
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            words = [part.value for part in call.args if isinstance(part, ast.Constant)]
            named = isinstance(call.func, ast.Attribute) and call.func.attr == "run"
            if named and len(words) == len(call.args) and all(isinstance(word, str) for word in words):
                yield "noxfile.py", shlex.join(map(str, words))


def _from_pyproject(folder: Path) -> Iterator[tuple[str, str]]:
    tool = read_toml(folder / "pyproject.toml").get("tool")
    for place in ("hatch.envs", "poe.tasks", "pdm.scripts", "taskipy.tasks"):
        table: Any = tool
        for key in place.split("."):
            table = table.get(key) if isinstance(table, Mapping) else None
        tables = [table] if place != "hatch.envs" else _scripts_of(table)
        for scripts in tables:
            for name, script in scripts.items() if isinstance(scripts, Mapping) else ():
                if _TARGETS.fullmatch(str(name)):
                    yield from (("pyproject.toml", line) for line in _script_lines(script))


def _scripts_of(environments: Any) -> list[Any]:
    values = environments.values() if isinstance(environments, Mapping) else ()
    return [value.get("scripts") for value in values if isinstance(value, Mapping)]


def _script_lines(script: Any) -> Iterator[str]:
    if isinstance(script, Mapping):
        script = script.get("cmd")
    for line in [script] if isinstance(script, str) else script if isinstance(script, list) else ():
        if isinstance(line, str):
            yield from line.split(" && ")


def _from_ci(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((folder / ".github" / "workflows").glob("*.y*ml")):
        try:
            workflow = yaml.safe_load(read_text(path))
        except (yaml.YAMLError, RecursionError, ValueError):
            continue
        for step in _ci_steps(workflow):
            run = step.get("run")
            if isinstance(run, str) and "working-directory" not in step:
                source = f".github/workflows/{path.name}"
                yield from ((source, line) for text in run.split("\n") for line in text.split(" && "))


def _ci_steps(workflow: Any) -> Iterator[Mapping[str, Any]]:
    jobs = workflow.get("jobs") if isinstance(workflow, Mapping) else None
    for job in jobs.values() if isinstance(jobs, Mapping) else ():
        steps = job.get("steps") if isinstance(job, Mapping) else None
        yield from (step for step in steps if isinstance(step, Mapping)) if isinstance(steps, list) else ()


_SOURCES: tuple[Callable[[Path], Iterable[tuple[str, str]]], ...] = (
    partial(_from_recipes, names=("GNUmakefile", "makefile", "Makefile")),
    partial(_from_recipes, names=("justfile", "Justfile", ".justfile")),
    _from_tox,
    _from_nox,
    _from_pyproject,
    _from_ci,
)
