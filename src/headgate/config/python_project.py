"""How a Python project in one folder is tested: by pytest, or by unittest where its discovery finds tests."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headgate.config.projects import Found, Kind, read_text, read_toml

MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
NOT_SOURCES = frozenset({"node_modules", "venv", "env", "build", "dist", "target", "__pycache__"})
_MAX_ENTRIES = 5000
_PYTEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_UNITTEST_FILE = re.compile(r"test.*\.py|.*_test\.py")


def find_python(folder: Path, root: Path, python: str, projects_below: Collection[Path]) -> Found | None:
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
    return Found(Kind("Python", evidence), tuple(steps), tuple(hints), covers_below=by_pytest)


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
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue  # what cannot be listed says nothing about the project
        for entry in entries:
            looked += 1
            if entry.is_file() and entry.name.endswith(".py"):
                yield Path(entry.path)
            elif is_source_folder(entry) and Path(entry.path) not in without:
                folders.append(Path(entry.path))
        if looked > _MAX_ENTRIES:
            return


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
    up = ""
    while True:
        if (folder / "uv.lock").is_file():
            return "uv run python"
        if (folder / "poetry.lock").is_file():
            return "poetry run python" if not up else None
        for venv in (".venv", "venv"):
            if (folder / venv / "bin" / "python").exists():
                return f"{up}{venv}/bin/python"
        if folder in (root, folder.parent):
            return None
        folder, up = folder.parent, f"../{up}"


def _mypy_knows_files(root: Path, tool: dict[str, Any]) -> bool:
    table = tool.get("mypy")
    if isinstance(table, dict) and {"files", "packages", "modules"} & set(table):
        return True
    return bool(re.search(r"^(?:files|packages|modules)\s*=", read_text(root / "mypy.ini"), re.MULTILINE))
