"""What a project's files say about running its tests: the commands in them, and the settings of test runners.

Commands are read from Makefile, justfile, package.json, tox.ini and noxfile.py as a shell would see them.
What cannot be read yields nothing, and nothing is run. Of files that hold much besides how tests run, a part
counts unless it is known to be free: dependencies, descriptions and linters are, an unknown section is not.
"""

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.first_use import regex
from headgate.reading.command_lines import word_set

MAX_COMMANDS = 200
_DEPTH = 8
_ASSIGNMENT = regex(r"(?:export\s+|override\s+)?([\w.-]+)\s*(?::{0,3}|\?|\+)=\s*(.*)")
_RULE = regex(r"([^\s:=#][^:=#]*?)\s*::?(?!=)\s*([^=]*)")
_VARIABLE = regex(r"\$\(([\w.-]+)\)|\$\{([\w.-]+)\}|\$(\w)")
_CALL = regex(r"\$\([^()]*\)")
_JUST_RECIPE = regex(r"@?([A-Za-z_][\w-]*)(?:\s+[^:]*)?:(?!=)\s*(.*)")
_JUST_VARIABLE = regex(r"\{\{\s*([\w-]+)\s*\}\}")
_TOX_VALUE = regex(r"\{\[([^\]]+)\]([\w]+)\}")
_PYTEST_FILES = {
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "pyproject.toml": "",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}
"""Where pytest looks for settings, in this order, and the section that has them; none for TOML."""
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
    for name, section in _PYTEST_FILES.items():
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
    try:
        return _parse_ini(text)
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


_PYPROJECT = word_set(
    """
    project dependency-groups build-system tool.ruff tool.black tool.isort tool.mypy tool.flake8
    tool.pylint tool.pyright tool.basedpyright tool.bandit tool.codespell tool.commitizen
    tool.semantic_release tool.towncrier tool.bumpversion tool.setuptools tool.setuptools_scm tool.flit
    tool.uv.dev-dependencies tool.poetry tool.hatch.build tool.hatch.metadata tool.hatch.version
    tool.pdm.build tool.pdm.version tool.pdm.source tool.pdm.dev-dependencies
    """
)
_SETUP_CFG = word_set(
    """
    metadata options options.extras_require options.package_data options.packages.find bdist_wheel sdist
    egg_info build_ext flake8 mypy isort pycodestyle pydocstyle pylint bumpversion
    """
)
_PACKAGE_JSON = word_set(
    """
    dependencies devDependencies peerDependencies peerDependenciesMeta optionalDependencies
    bundledDependencies name version description keywords author contributors license private main
    module types typings exports bin files engines repository homepage bugs funding sideEffects type man
    browser publishConfig prettier eslintConfig
    """
)
_COMPOSER_JSON = word_set(
    """
    require require-dev name description type license authors keywords version homepage support suggest
    autoload minimum-stability prefer-stable
    """
)
_CARGO = word_set(
    """
    dependencies dev-dependencies build-dependencies features badges lints target
    workspace.dependencies workspace.package package.name package.version package.edition
    package.authors package.description package.license package.license-file package.repository
    package.homepage package.documentation package.readme package.keywords package.categories
    package.rust-version package.publish package.exclude package.include package.metadata
    """
)
_DENO = word_set("name version description license author exports publish fmt lint bench")
_GO_MOD = word_set("module require go toolchain retract")
_ENTRY_POINTS = word_set("console_scripts gui_scripts")
_COUNTS_AFTER_ALL = word_set(
    """
    project.entry-points options.entry_points tool.poetry.plugins tool.poetry.scripts tool.poetry.source
    features.default autoload.files
    """
)
_MAY_GROW = frozenset({"dev-dependencies"})
"""Tables to which entries may be added: an entry that was there is what tests use."""


def _parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of a file; configparser.Error if it is no such file."""
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _parse_go_mod(text: str) -> dict[str, list[str]]:
    """The directives of a go.mod file by their names, those in parentheses included."""
    found: dict[str, list[str]] = {}
    block = ""
    for line in text.splitlines():
        words = line.partition("//")[0].split()
        if block and words == [")"]:
            block = ""
        elif words and words[-1] == "(":
            block = words[0]
        elif words:
            found.setdefault(block or words[0], []).append(" ".join(words if block else words[1:]))
    return found


_KINDS: Mapping[str, tuple[Callable[[str], Any], frozenset[str]]] = {
    "pyproject.toml": (tomllib.loads, _PYPROJECT),
    "setup.cfg": (_parse_ini, _SETUP_CFG),
    "package.json": (json.loads, _PACKAGE_JSON),
    "composer.json": (json.loads, _COMPOSER_JSON),
    "cargo.toml": (tomllib.loads, _CARGO),
    "deno.json": (json.loads, _DENO),
    "deno.jsonc": (json.loads, _DENO),
    "go.mod": (_parse_go_mod, _GO_MOD),
    "entry_points.txt": (_parse_ini, _ENTRY_POINTS),
}


def has_test_settings(path: str) -> bool:
    """Whether parts of a file may decide how tests run, and the others are free."""
    return path.rpartition("/")[2].lower() in _KINDS


def changed_settings(path: str, before: bytes | None, after: bytes | None) -> tuple[str, ...]:
    """The parts that decide how tests run and differ, as dotted keys; None is a file that is not there.

    A file that cannot be read, before or after, counts as changed as a whole.
    """
    if before == after:
        return ()
    read, free = _KINDS[path.rpartition("/")[2].lower()]
    try:
        old, new = (_parts(read, free, data) for data in (before, after))
    except (ValueError, configparser.Error, RecursionError):
        return ("the whole file, which cannot be read",)
    keys = old.keys() | new.keys()
    changed = [key for key in keys if not (key in old and key in new and _same(old[key], new[key]))]
    return tuple(sorted(key for key in changed if key in old or key.partition(".")[0] not in _MAY_GROW))


def _parts(read: Callable[[str], Any], free: frozenset[str], data: bytes | None) -> dict[str, Any]:
    """What counts in a file, by dotted key: down to where everything below counts."""
    text = (data or b"").decode("utf-8-sig")
    value = read(text) if text.strip() else {}
    if not isinstance(value, dict):
        return {"": value}
    found: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = [(key, part) for key, part in value.items()]
    while pending:
        key, part = pending.pop()
        below = free if key not in free else _COUNTS_AFTER_ALL
        inner = key in _MAY_GROW or any(other.startswith(f"{key}.") for other in below)
        if inner and isinstance(part, dict):
            pending += [(f"{key}.{name}", value) for name, value in part.items()]
        elif not _is_free(key, free):
            found[key] = part
    return found


def _is_free(key: str, free: frozenset[str]) -> bool:
    if key in _COUNTS_AFTER_ALL or key.partition(".")[0] in _MAY_GROW:
        return False
    return any(key == name or key.startswith(f"{name}.") for name in free)


def _same(old: Any, new: Any) -> bool:
    """Equal, and not only as Python sees it: `true` is not 1. The order of keys means nothing."""
    return json.dumps(old, sort_keys=True, default=repr) == json.dumps(new, sort_keys=True, default=repr)
