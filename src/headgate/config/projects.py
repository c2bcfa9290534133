"""How a project in one folder is tested, by the files that its build tools know. Nothing is run."""

import json
import os
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headgate.first_use import dataclass, regex
from headgate.reading import split_commands

_MAX_BYTES = 1024 * 1024
_NODE_LOCKS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_NODE_SCRIPTS = (("lint", "lint"), ("typecheck", "types"), ("type-check", "types"), ("build", "build"))
_SCRIPT_WORDS = """
    bash bun bunx cd cp echo exit make mkdir mv node npm npx pnpm rm sh test true yarn
"""
_NODE_OWN_TOOLS = frozenset(_SCRIPT_WORDS.split())
_NODE_PACKAGES = {"tsc": "typescript", "ng": "@angular/cli", "run-s": "npm-run-all", "run-p": "npm-run-all"}
_NODE_WORKSPACES = ("pnpm-workspace.yaml", "lerna.json", "nx.json", "turbo.json")


@dataclass(frozen=True)
class ProjectKind:
    """A kind of project, and the file that shows it."""

    name: str
    evidence: str


@dataclass(frozen=True)
class FoundProject:
    """One kind of project in one folder: its steps as names and commands, and what a person should know."""

    kind: ProjectKind
    steps: tuple[tuple[str, str], ...] = ()
    hints: tuple[str, ...] = ()
    covers_below: bool = False
    """The steps also run the projects of this kind in folders below."""


def find_node(folder: Path, root: Path) -> FoundProject | None:
    """A project with a package.json. Scripts whose tool is missing are left out, and that is said."""
    package = folder / "package.json"
    if not package.is_file():
        return None
    kind = ProjectKind("Node", "package.json")
    try:
        data = json.loads(read_text(package))
    except (ValueError, RecursionError):
        return FoundProject(kind, hints=("Node: package.json is not valid JSON.",))
    data = data if isinstance(data, dict) else {}
    scripts = _table(data, "scripts")
    runner = next((tool for lock, tool in _NODE_LOCKS.items() if _is_above(lock, folder, root)), "npm")
    steps: list[tuple[str, str]] = []
    hints: list[str] = []
    test = scripts.get("test")
    if isinstance(test, str) and "no test specified" not in test:
        steps.append(("tests", f"{runner} run test" if runner == "bun" else f"{runner} test"))
    else:
        hints.append('Node: package.json has no "test" script.')
    packages = [_table(data, name) for name in ("dependencies", "devDependencies", "optionalDependencies")]
    listed = {name for table in packages for name in table}
    for script, name in _NODE_SCRIPTS:
        line = scripts.get(script)
        if not isinstance(line, str) or name in dict(steps):
            continue
        if missing := _missing_tool(line, listed, folder, root):
            hints.append(
                f'Node: the script "{script}" was left out: its tool {missing} is neither installed nor '
                "among the dependencies."
            )
        else:
            steps.append((name, f"{runner} run {script}"))
    covers = "workspaces" in data or any((folder / name).is_file() for name in _NODE_WORKSPACES)
    return FoundProject(kind, tuple(steps), tuple(hints), covers)


def _missing_tool(line: str, listed: set[str], folder: Path, root: Path) -> str | None:
    for command in split_commands(line):
        tool = command.program
        if not tool or "/" in tool or "$" in tool or tool in _NODE_OWN_TOOLS:
            continue
        known = tool in listed or _NODE_PACKAGES.get(tool) in listed
        known = known or any(name.rpartition("/")[2] == tool for name in listed)
        if not known and not _is_above(f"node_modules/.bin/{tool}", folder, root):
            return tool
    return None


def find_go_workspace(folder: Path, root: Path) -> FoundProject | None:
    """A workspace of modules: without a module of its own, its root has to name them."""
    if not (folder / "go.work").is_file() or (folder / "go.mod").is_file():
        return None
    modules = re.findall(r"^\s*(?:use\s+)?(\./[\w./-]+)\s*$", read_text(folder / "go.work"), re.MULTILINE)
    patterns = " ".join(f"{module.rstrip('/')}/..." for module in modules)
    if not patterns:
        return FoundProject(ProjectKind("Go", "go.work"), hints=("Go: go.work names no modules.",))
    steps = (("vet", f"go vet {patterns}"), ("tests", f"go test {patterns}"))
    return FoundProject(ProjectKind("Go", "go.work"), steps, covers_below=True)


def read_text(path: Path) -> str:
    """The beginning of a file; one that cannot be read says nothing about the project."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; one that is not valid says nothing about the project."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError):
        return {}


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def _is_above(name: str, folder: Path, root: Path) -> bool:
    """Whether a file is in the folder or in one above it, up to the root."""
    return any((place / name).exists() for place in _upwards(folder, root))


def _upwards(folder: Path, root: Path) -> Iterator[Path]:
    """The folder and those above it, up to the root."""
    yield folder
    if folder not in (root, folder.parent):
        yield from _upwards(folder.parent, root)


# How a Python project in one folder is tested: by pytest, or by unittest where its discovery finds tests.


MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
NOT_SOURCES = frozenset({"node_modules", "venv", "env", "build", "dist", "target", "__pycache__"})
_MAX_ENTRIES = 5000
_PYTEST_FILE = regex(r"test_.*\.py|.*_test\.py")
_UNITTEST_FILE = regex(r"test.*\.py|.*_test\.py")


def find_python(
    folder: Path, root: Path, python: str, projects_below: Collection[Path]
) -> FoundProject | None:
    """A project with a manifest, or plain Python files.

    `python` is the interpreter to name where the project has none. Without a manifest here, the files of
    other projects below say nothing about this folder.
    """
    evidence = next((name for name in MANIFESTS if (folder / name).is_file()), None)
    sources = list(_sources(folder, () if evidence else projects_below))
    evidence = evidence or next((path.relative_to(folder).as_posix() for path in sources), None)
    if evidence is None:
        return None
    own = project_interpreter(folder, root)
    interpreter = own or python
    steps: list[tuple[str, str]] = []
    hints: list[str] = []
    test_files = [path for path in sources if _PYTEST_FILE.fullmatch(path.name)]
    by_pytest = bool(test_files) and _uses_pytest(folder, test_files)
    if by_pytest:
        steps.append(("tests", f"{interpreter} -m pytest -q"))
    else:
        arguments, hint = _discovery(
            folder, [path for path in sources if _UNITTEST_FILE.fullmatch(path.name)]
        )
        hints += [hint] if hint else []
        if arguments is not None:
            steps.append(("tests", f"{interpreter} -m unittest discover{arguments}"))
    steps += _linters(folder, interpreter if own else None)
    return FoundProject(ProjectKind("Python", evidence), tuple(steps), tuple(hints), covers_below=by_pytest)


def _linters(folder: Path, interpreter: str | None) -> Iterator[tuple[str, str]]:
    tool = read_toml(folder / "pyproject.toml").get("tool")
    tool = tool if isinstance(tool, dict) else {}
    # Linters are often installed on their own, outside of the interpreter's packages.
    module = f"{interpreter} -m " if interpreter else ""
    if "ruff" in tool or any((folder / name).is_file() for name in ("ruff.toml", ".ruff.toml")):
        yield "lint", f"{module}ruff check ."
    if "mypy" in tool or (folder / "mypy.ini").is_file():
        yield "types", f"{module}mypy" + ("" if _mypy_knows_files(folder, tool) else " .")


def _sources(root: Path, without: Collection[Path]) -> Iterator[Path]:
    """Python files near the root, the nearest first; a large tree is not searched to its end."""
    folders, looked = [root], 0
    for folder in folders:
        for entry in list_folder(folder):
            looked += 1
            if entry.is_file() and entry.name.endswith(".py"):
                yield Path(entry.path)
            elif is_source_folder(entry) and Path(entry.path) not in without:
                folders.append(Path(entry.path))
        if looked > _MAX_ENTRIES:
            return


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """A folder's entries by name; one that cannot be listed says nothing about the project."""
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []


def is_source_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder that may hold the project's own files."""
    return entry.is_dir(follow_symlinks=False) and entry.name not in NOT_SOURCES and entry.name[0] != "."


def _discovery(root: Path, files: list[Path]) -> tuple[str | None, str]:
    """The arguments with which unittest finds the most of these files, and what is to be said about it."""
    if not files:
        return None, "Python: no test files were found."
    starts = {path: _start_folder(path, root) for path in files}
    if root in starts.values():
        for path, folder in starts.items():
            starts[path] = root if (folder / "__init__.py").is_file() else folder
    start = Counter(starts.values()).most_common(1)[0][0]
    found = [path for path, folder in starts.items() if folder == start]
    arguments = ""
    if start != root:
        arguments = f" -s {shlex.quote(start.relative_to(root).as_posix())}"
        arguments += " -t ." if (start / "__init__.py").is_file() else ""
    if not any(fnmatchcase(path.name, "test*.py") for path in found):
        arguments += " -p '*_test.py'"
    others = sorted({folder.relative_to(root).as_posix() for folder in starts.values() if folder != start})
    hint = ""
    if others:
        hint = f"Python: the tests in {', '.join(others[:5])} were left out: add a step if you need them."
    return arguments, hint


def _start_folder(path: Path, root: Path) -> Path:
    """Where discovery must start to find a file: it goes down into packages, and into nothing else."""
    folder = path.parent
    while root not in (folder, folder.parent) and (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _uses_pytest(root: Path, test_files: list[Path]) -> bool:
    signs = ("pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py")
    if any((root / name).is_file() for name in signs):
        return True
    declared = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini")
    texts = [read_text(root / name) for name in declared]
    texts += [read_text(path) for path in sorted(root.glob("requirements*.txt"))]
    if any(re.search(r"\bpytest\b", text) for text in texts):
        return True
    # Without a word of pytest, tests that are plain functions still need it.
    return any(_is_pytest_style(read_text(path)) for path in test_files[:20])


def _is_pytest_style(source: str) -> bool:
    if re.search(r"^\s*(?:import|from)\s+pytest\b", source, re.MULTILINE):
        return True
    return "unittest" not in source and bool(re.search(r"^(?:async )?def test", source, re.MULTILINE))


def project_interpreter(folder: Path, root: Path) -> str | None:
    """The project's own interpreter, of its folder or of one above it."""
    for depth, place in enumerate(_upwards(folder, root)):
        if (place / "uv.lock").is_file():
            return "uv run python"
        if (place / "poetry.lock").is_file():
            return None if depth else "poetry run python"
        for venv in (".venv", "venv"):
            if (place / venv / "bin" / "python").exists():
                return f"{'../' * depth}{venv}/bin/python"
    return None


def _mypy_knows_files(root: Path, tool: dict[str, Any]) -> bool:
    table = tool.get("mypy")
    if isinstance(table, dict) and {"files", "packages", "modules"} & set(table):
        return True
    return bool(re.search(r"^(?:files|packages|modules)\s*=", read_text(root / "mypy.ini"), re.MULTILINE))
