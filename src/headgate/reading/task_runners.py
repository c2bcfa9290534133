"""The commands that a task runner's file holds: Makefile, justfile, package.json, tox.ini, noxfile.py.

Each function takes the file's text and what was asked for, and returns command lines as a shell would see
them. What cannot be read yields nothing. It finds what the commands plainly name; it runs nothing.
"""

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_COMMANDS = 200
_DEPTH = 8
_ASSIGNMENT = re.compile(r"(?:export\s+|override\s+)?([\w.-]+)\s*(?::{0,3}|\?|\+)=\s*(.*)")
_RULE = re.compile(r"([^\s:=#][^:=#]*?)\s*::?(?!=)\s*([^=]*)")
_VARIABLE = re.compile(r"\$\(([\w.-]+)\)|\$\{([\w.-]+)\}|\$(\w)")
_CALL = re.compile(r"\$\([^()]*\)")
_JUST_RECIPE = re.compile(r"@?([A-Za-z_][\w-]*)(?:\s+[^:]*)?:(?!=)\s*(.*)")
_JUST_VARIABLE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")
_TOX_VALUE = re.compile(r"\{\[([^\]]+)\]([\w]+)\}")
_TOX_WORDS = {"toxinidir": ".", "tox_root": ".", "envpython": "python", "env_python": "python"}


def make_commands(text: str, targets: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """What `make TARGET...` runs, the targets that these need included; the first target if none is named."""
    values: dict[str, str] = {"MAKE": "make", "CURDIR": "."}
    recipes: dict[str, list[str]] = {}
    needs: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for name in current:
                recipes[name].append(line.strip().lstrip("@-+ "))
        elif found := _ASSIGNMENT.fullmatch(line.strip()):
            values[found[1]] = found[2].partition(" #")[0].strip()
        elif found := _RULE.fullmatch(line.partition("#")[0].partition(";")[0].strip()):
            current = _expand(found[1], values).split()
            wanted = _expand(found[2], values).replace("|", " ").split()
            for name in current:
                recipes.setdefault(name, [])
                needs.setdefault(name, []).extend(wanted)
    values.update(variables)
    names = targets or [name for name in recipes if not name.startswith(".")][:1]
    lines = [line for name in _closure(names, needs) for line in recipes.get(name, ())]
    return [expanded for line in lines[:MAX_COMMANDS] if (expanded := _expand(line, values).strip())]


def just_commands(text: str, names: Sequence[str]) -> list[str]:
    """What `just RECIPE...` runs; the first recipe if none is named."""
    values: dict[str, str] = {}
    recipes: dict[str, list[str]] = {}
    needs: dict[str, list[str]] = {}
    current = ""
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1].isspace() and current:
            recipes[current].append(line.strip().lstrip("@-"))
        elif found := re.fullmatch(r"(?:export\s+)?([\w-]+)\s*:=\s*(.*)", line):
            values[found[1]] = found[2].strip().strip("'\"")
        elif found := _JUST_RECIPE.fullmatch(line.partition("#")[0].strip()):
            current = found[1]
            recipes[current] = []
            needs[current] = re.findall(r"[A-Za-z_][\w-]*", found[2])
    wanted = [name for name in names if name in recipes] or list(recipes)[:1]
    lines = [line for name in _closure(wanted, needs) for line in recipes.get(name, ())]
    return [
        _JUST_VARIABLE.sub(lambda found: values.get(found[1], ""), line)
        for line in lines[:MAX_COMMANDS]
        if line and not line.startswith("#!")
    ]


def script_commands(text: str, name: str) -> list[str]:
    """What `npm run NAME` (or yarn, pnpm, composer) runs, by package.json or composer.json."""
    try:
        scripts = json.loads(text).get("scripts", {})
        asked = [scripts[key] for key in (f"pre{name}", name, f"post{name}") if key in scripts]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []
    lines = [line for one in asked for line in (one if isinstance(one, list) else [one])]
    texts = [line for line in lines if isinstance(line, str)][:MAX_COMMANDS]
    return [f"composer {text[1:]}" if text[1:] in scripts else text.removeprefix("@") for text in texts]


def project_commands(text: str, name: str) -> list[str]:
    """What `hatch run NAME`, `pdm run NAME` or `poe NAME` runs, by pyproject.toml."""
    tool = _toml(text).get("tool")
    tables = [_at(tool, *path) for path in (("poe", "tasks"), ("pdm", "scripts"), ("taskipy", "tasks"))]
    environments = _at(tool, "hatch", "envs")
    tables += [_at(one, "scripts") for one in environments.values()]
    short = name.rpartition(":")[2]
    return [line for table in tables for line in _command_lines(table.get(name, table.get(short)))]


def tox_commands(text: str, *, is_toml: bool = False) -> list[str]:
    """The commands of every environment of a tox.ini, setup.cfg, tox.toml or pyproject.toml."""
    if not is_toml:
        return _tox_ini(text)
    data = _toml(text)
    settings = _at(data, "tool", "tox") or data
    if isinstance(settings.get("legacy_tox_ini"), str):
        return _tox_ini(settings["legacy_tox_ini"])
    tables = [_at(settings, "env_run_base"), *_at(settings, "env").values()]
    return [_tox_words(line) for table in tables for line in _command_lines(_plain(table).get("commands"))][
        :MAX_COMMANDS
    ]


def nox_commands(text: str) -> list[str]:
    """What the sessions of a noxfile.py run, where it is written out: `session.run("pytest", "checks")`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run":
            words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            found.append(shlex.join(word for word in words if isinstance(word, str)))
    return [line for line in found if line][:MAX_COMMANDS]


def pytest_settings(files: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """`testpaths` and `python_files`, by the first of pytest's own files (name to text) that has either."""
    for name, section in (("pytest.ini", "pytest"), (".pytest.ini", "pytest"), ("pyproject.toml", "")):
        if name in files and any(found := _pytest_part(files[name], section)):
            return found
    for name, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        if name in files and any(found := _pytest_part(files[name], section)):
            return found
    return [], []


def _pytest_part(text: str, section: str) -> tuple[list[str], list[str]]:
    values = _ini(text).get(section, {}) if section else _at(_toml(text), "tool", "pytest", "ini_options")
    return _listed(values.get("testpaths")), _listed(values.get("python_files"))


def _listed(value: Any) -> list[str]:
    return value.split() if isinstance(value, str) else [str(one) for one in value or ()]


def _expand(text: str, values: Mapping[str, str]) -> str:
    """The text with make's variables replaced; what only make can compute is left out."""
    for _ in range(_DEPTH):
        replaced = _VARIABLE.sub(lambda found: values.get(found[1] or found[2] or found[3], ""), text)
        if replaced == text or len(replaced) > 10_000:
            break
        text = replaced
    return _CALL.sub("", text).replace("$$", "$")


def _closure(names: Iterable[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The names, and before each what it needs."""
    found: dict[str, None] = {}
    pending = list(names)
    while pending and len(found) < MAX_COMMANDS:
        name = pending.pop()
        if name not in found:
            found[name] = None
            pending += needs.get(name, ())
    return list(found)


def _tox_ini(text: str) -> list[str]:
    sections = _ini(text)
    found: list[str] = []
    for name, values in sections.items():
        if name.partition(":")[0] in ("testenv", "tox") or name.startswith("tox:testenv"):
            folder = values.get("changedir") or values.get("change_dir") or ""
            text = "\n".join(values.get(key, "") for key in ("commands_pre", "commands"))
            text = _TOX_VALUE.sub(lambda found: sections.get(found[1], {}).get(found[2], ""), text)
            lines = [_tox_words(line) for line in text.replace("\\\n", " ").splitlines() if line.strip()]
            found += [f"cd {_tox_words(folder)} && {line}" if folder else line for line in lines]
    return found[:MAX_COMMANDS]


def _tox_words(line: str) -> str:
    line = re.sub(r"\{posargs(?::([^{}]*))?\}", lambda found: found[1] or "", line)
    return re.sub(r"\{(\w+)\}", lambda found: _TOX_WORDS.get(found[1], ""), line).strip().lstrip("-! ")


def _ini(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
        return {name: dict(parser.items(name)) for name in parser.sections()}
    except configparser.Error:
        return {}


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _plain(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _at(value: Any, *path: str) -> dict[str, Any]:
    for name in path:
        value = _plain(value).get(name)
    return _plain(value)


def _command_lines(value: Any) -> list[str]:
    """A command as tables write it: text, a list of texts, a list of lists of words, or `{cmd: ...}`."""
    if isinstance(value, dict):
        value = value.get("cmd", value.get("shell", value.get("sequence", value.get("composite"))))
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    lines = [shlex.join(map(str, one)) if isinstance(one, list) else one for one in value]
    return [line for line in lines if isinstance(line, str)]
