"""Guessing how a project is tested from the files in its root. Nothing is run."""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.core.settings import VerifyStep

_MAX_BYTES = 1024 * 1024
_PYTHON_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
_NODE_LOCKS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
_NOT_SOURCES = frozenset({"node_modules", "venv", "env", "build", "dist", "target", "__pycache__"})
_MAX_ENTRIES = 5000
_MAKE_TARGETS = ("test", "check")


@dataclass(frozen=True)
class Kind:
    """A kind of project, and the file that shows it."""

    name: str
    evidence: str


@dataclass(frozen=True)
class Detection:
    """What was seen, the verification that follows from it, and what a person should look at."""

    kinds: tuple[Kind, ...] = ()
    steps: tuple[VerifyStep, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Found:
    kind: Kind
    steps: tuple[tuple[str, str], ...] = ()
    hints: tuple[str, ...] = ()


def detect_project(root: Path, python: str = "python") -> Detection:
    """Looks at the project's own files; several kinds in one repository are all listed.

    `python` is the interpreter to name where the project has none of its own.
    """
    detectors = (lambda root: _python(root, python), _node, _go, _rust, _maven, _gradle, _cmake)
    found = [item for detect in detectors if (item := detect(root))]
    if make := _make(root):
        # A Makefile next to a project that says how it is tested mostly wraps just that.
        found.append(_Found(make.kind) if any(item.steps for item in found) else make)
    steps: list[VerifyStep] = []
    for item in found:
        for name, command in item.steps:
            taken = {step.name for step in steps}
            own = name if name not in taken else f"{name}-{item.kind.name.split()[0].lower()}"
            steps.append(VerifyStep(name=own, command=command))
    hints = [hint for item in found for hint in item.hints]
    if not found:
        hints.append("No known kind of project was seen: name the commands that verify it yourself.")
    elif not steps:
        hints.append("No tests were found: name the commands that verify the project yourself.")
    return Detection(tuple(item.kind for item in found), tuple(steps), tuple(hints))


def _python(root: Path, python: str) -> _Found | None:
    evidence = next((name for name in _PYTHON_FILES if (root / name).is_file()), None)
    sources = list(_python_sources(root))
    evidence = evidence or next((path.relative_to(root).as_posix() for path in sources), None)
    if evidence is None:
        return None
    test_files = [path for path in sources if re.fullmatch(r"test_.*\.py|.*_test\.py|tests?\.py", path.name)]
    project = _toml(root / "pyproject.toml")
    interpreter = _interpreter(root) or python
    steps: list[tuple[str, str]] = []
    if test_files and _uses_pytest(root, test_files):
        steps.append(("tests", f"{interpreter} -m pytest -q"))
    elif test_files:
        steps.append(("tests", f"{interpreter} -m unittest discover{_unittest_folder(root)}"))
    tool = project.get("tool")
    tool = tool if isinstance(tool, dict) else {}
    # Linters are often installed on their own, outside of the interpreter's packages.
    module = f"{interpreter} -m " if interpreter != python else ""
    if "ruff" in tool or any((root / name).is_file() for name in ("ruff.toml", ".ruff.toml")):
        steps.append(("lint", f"{module}ruff check ."))
    if "mypy" in tool or (root / "mypy.ini").is_file():
        steps.append(("types", f"{module}mypy" + ("" if _mypy_knows_files(root, tool) else " .")))
    hints = () if test_files else ("Python: no test files were found.",)
    return _Found(Kind("Python", evidence), tuple(steps), hints)


def _python_sources(root: Path) -> Iterator[Path]:
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
            elif (
                entry.is_dir(follow_symlinks=False)
                and entry.name not in _NOT_SOURCES
                and entry.name[0] != "."
            ):
                folders.append(Path(entry.path))
        if looked > _MAX_ENTRIES:
            return


def _unittest_folder(root: Path) -> str:
    for name in ("tests", "test"):
        if (root / name).is_dir():
            return f" -s {name}" + (" -t ." if (root / name / "__init__.py").is_file() else "")
    return ""


def _uses_pytest(root: Path, test_files: list[Path]) -> bool:
    signs = ("pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py")
    if any((root / name).is_file() for name in signs):
        return True
    declared = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini")
    texts = [_text(root / name) for name in declared]
    texts += [_text(path) for path in sorted(root.glob("requirements*.txt"))]
    if any(re.search(r"\bpytest\b", text) for text in texts):
        return True
    # Without a word of pytest, tests that are plain functions still need it.
    return any(_is_pytest_style(_text(path)) for path in test_files[:20])


def _is_pytest_style(source: str) -> bool:
    if re.search(r"^\s*(?:import|from)\s+pytest\b", source, re.MULTILINE):
        return True
    return "unittest" not in source and bool(re.search(r"^(?:async )?def test", source, re.MULTILINE))


def _interpreter(root: Path) -> str | None:
    if (root / "uv.lock").is_file():
        return "uv run python"
    if (root / "poetry.lock").is_file():
        return "poetry run python"
    for venv in (".venv", "venv"):
        if (root / venv / "bin" / "python").exists():
            return f"{venv}/bin/python"
    return None


def _mypy_knows_files(root: Path, tool: dict[str, Any]) -> bool:
    table = tool.get("mypy")
    if isinstance(table, dict) and {"files", "packages", "modules"} & set(table):
        return True
    return bool(re.search(r"^(?:files|packages|modules)\s*=", _text(root / "mypy.ini"), re.MULTILINE))


def _node(root: Path) -> _Found | None:
    package = root / "package.json"
    if not package.is_file():
        return None
    kind = Kind("Node", "package.json")
    try:
        data = json.loads(_text(package))
    except (ValueError, RecursionError):
        return _Found(kind, hints=("Node: package.json is not valid JSON.",))
    scripts = data.get("scripts") if isinstance(data, dict) else None
    scripts = scripts if isinstance(scripts, dict) else {}
    runner = next((tool for lock, tool in _NODE_LOCKS.items() if (root / lock).is_file()), "npm")
    steps: list[tuple[str, str]] = []
    test = scripts.get("test")
    if isinstance(test, str) and "no test specified" not in test:
        steps.append(("tests", f"{runner} run test" if runner == "bun" else f"{runner} test"))
    for script, name in (
        ("lint", "lint"),
        ("typecheck", "types"),
        ("type-check", "types"),
        ("build", "build"),
    ):
        if isinstance(scripts.get(script), str) and name not in dict(steps):
            steps.append((name, f"{runner} run {script}"))
    hints = () if "tests" in dict(steps) else ('Node: package.json has no "test" script.',)
    return _Found(kind, tuple(steps), hints)


def _go(root: Path) -> _Found | None:
    for evidence in ("go.mod", "go.work"):
        if (root / evidence).is_file():
            return _Found(Kind("Go", evidence), (("vet", "go vet ./..."), ("tests", "go test ./...")))
    return None


def _rust(root: Path) -> _Found | None:
    if not (root / "Cargo.toml").is_file():
        return None
    flag = " --workspace" if "workspace" in _toml(root / "Cargo.toml") else ""
    return _Found(Kind("Rust", "Cargo.toml"), (("tests", f"cargo test{flag}"),))


def _maven(root: Path) -> _Found | None:
    if not (root / "pom.xml").is_file():
        return None
    command = "./mvnw" if (root / "mvnw").is_file() else "mvn"
    return _Found(Kind("Java (Maven)", "pom.xml"), (("tests", f"{command} -q -B test"),))


def _gradle(root: Path) -> _Found | None:
    names = ("build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle")
    evidence = next((name for name in names if (root / name).is_file()), None)
    if evidence is None:
        return None
    command = "./gradlew" if (root / "gradlew").is_file() else "gradle"
    return _Found(Kind("Java (Gradle)", evidence), (("tests", f"{command} -q test"),))


def _cmake(root: Path) -> _Found | None:
    if not (root / "CMakeLists.txt").is_file():
        return None
    steps = [("configure", "cmake -S . -B build"), ("build", "cmake --build build")]
    hints: tuple[str, ...] = ()
    if re.search(
        r"\b(?:enable_testing|add_test|include\s*\(\s*CTest)\b", _text(root / "CMakeLists.txt"), re.I
    ):
        steps.append(("tests", "ctest --test-dir build --output-on-failure"))
    else:
        hints = ("CMake: CMakeLists.txt declares no tests, so there is only a build.",)
    return _Found(Kind("CMake", "CMakeLists.txt"), tuple(steps), hints)


def _make(root: Path) -> _Found | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if (root / name).is_file():
            text = _text(root / name)
            for target in _MAKE_TARGETS:
                if re.search(
                    rf"^(?:[\w.-]+[ \t]+)*{target}(?:[ \t]+[\w.-]+)*[ \t]*::?(?!=)", text, re.MULTILINE
                ):
                    return _Found(Kind("Make", name), (("tests", f"make {target}"),))
            return _Found(Kind("Make", name), hints=("Make: there is no target named test or check.",))
    return None


def _text(path: Path) -> str:
    """The beginning of a file; one that cannot be read says nothing about the project."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return {}
