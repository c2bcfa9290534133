"""How a project in one folder is tested, by the files that its build tools know. Nothing is run."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.host.commandline import split_commands

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
_GRADLE_FILES = ("build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle")
_MAKE_TARGETS = ("test", "check")


@dataclass(frozen=True)
class Kind:
    """A kind of project, and the file that shows it."""

    name: str
    evidence: str


@dataclass(frozen=True)
class Found:
    """One kind of project in one folder: its steps as names and commands, and what a person should know."""

    kind: Kind
    steps: tuple[tuple[str, str], ...] = ()
    hints: tuple[str, ...] = ()
    covers_below: bool = False
    """The steps also run the projects of this kind in folders below."""


def find_node(folder: Path, root: Path) -> Found | None:
    """A project with a package.json. Scripts whose tool is missing are left out, and that is said."""
    package = folder / "package.json"
    if not package.is_file():
        return None
    kind = Kind("Node", "package.json")
    try:
        data = json.loads(read_text(package))
    except (ValueError, RecursionError):
        return Found(kind, hints=("Node: package.json is not valid JSON.",))
    data = data if isinstance(data, dict) else {}
    scripts = _table(data, "scripts")
    runner = next((tool for lock, tool in _NODE_LOCKS.items() if _up(folder, root, lock)), "npm")
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
    return Found(kind, tuple(steps), tuple(hints), covers)


def _missing_tool(line: str, listed: set[str], folder: Path, root: Path) -> str | None:
    for command in split_commands(line):
        tool = command.program
        if not tool or "/" in tool or "$" in tool or tool in _NODE_OWN_TOOLS:
            continue
        known = tool in listed or _NODE_PACKAGES.get(tool) in listed
        known = known or any(name.rpartition("/")[2] == tool for name in listed)
        if not known and not _up(folder, root, f"node_modules/.bin/{tool}"):
            return tool
    return None


def find_go(folder: Path, root: Path) -> Found | None:
    """A module, or a workspace of modules."""
    if (folder / "go.mod").is_file():
        return Found(Kind("Go", "go.mod"), (("vet", "go vet ./..."), ("tests", "go test ./...")))
    if not (folder / "go.work").is_file():
        return None
    # Without a module of its own, a workspace's root has to name the modules.
    modules = re.findall(r"^\s*(?:use\s+)?(\./[\w./-]+)\s*$", read_text(folder / "go.work"), re.MULTILINE)
    patterns = " ".join(f"{module.rstrip('/')}/..." for module in modules)
    if not patterns:
        return Found(Kind("Go", "go.work"), hints=("Go: go.work names no modules.",))
    steps = (("vet", f"go vet {patterns}"), ("tests", f"go test {patterns}"))
    return Found(Kind("Go", "go.work"), steps, covers_below=True)


def find_rust(folder: Path, root: Path) -> Found | None:
    """A crate or a workspace of crates."""
    if not (folder / "Cargo.toml").is_file():
        return None
    workspace = "workspace" in read_toml(folder / "Cargo.toml")
    flag = " --workspace" if workspace else ""
    return Found(Kind("Rust", "Cargo.toml"), (("tests", f"cargo test{flag}"),), covers_below=workspace)


def find_maven(folder: Path, root: Path) -> Found | None:
    """A Maven project."""
    if not (folder / "pom.xml").is_file():
        return None
    command = "./mvnw" if (folder / "mvnw").is_file() else "mvn"
    covers = "<modules>" in read_text(folder / "pom.xml")
    return Found(Kind("Java (Maven)", "pom.xml"), (("tests", f"{command} -q -B test"),), covers_below=covers)


def find_gradle(folder: Path, root: Path) -> Found | None:
    """A Gradle build."""
    evidence = next((name for name in _GRADLE_FILES if (folder / name).is_file()), None)
    if evidence is None:
        return None
    command = "./gradlew" if (folder / "gradlew").is_file() else "gradle"
    return Found(Kind("Java (Gradle)", evidence), (("tests", f"{command} -q test"),), covers_below=True)


def find_cmake(folder: Path, root: Path) -> Found | None:
    """A CMake project; its subdirectories belong to it."""
    if not (folder / "CMakeLists.txt").is_file():
        return None
    steps = [("configure", "cmake -S . -B build"), ("build", "cmake --build build")]
    hints: tuple[str, ...] = ()
    text = read_text(folder / "CMakeLists.txt")
    if re.search(r"\b(?:enable_testing|add_test|include\s*\(\s*CTest)\b", text, re.I):
        steps.append(("tests", "ctest --test-dir build --output-on-failure"))
    else:
        hints = ("CMake: CMakeLists.txt declares no tests, so there is only a build.",)
    return Found(Kind("CMake", "CMakeLists.txt"), tuple(steps), hints, covers_below=True)


def find_make(folder: Path, root: Path) -> Found | None:
    """A Makefile with a target that tests."""
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if (folder / name).is_file():
            text = read_text(folder / name)
            for target in _MAKE_TARGETS:
                if re.search(
                    rf"^(?:[\w.-]+[ \t]+)*{target}(?:[ \t]+[\w.-]+)*[ \t]*::?(?!=)", text, re.MULTILINE
                ):
                    return Found(Kind("Make", name), (("tests", f"make {target}"),))
            return Found(Kind("Make", name), hints=("Make: there is no target named test or check.",))
    return None


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
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def _up(folder: Path, root: Path, name: str) -> bool:
    """Whether a file is in the folder or in one above it, up to the root."""
    while True:
        if (folder / name).exists():
            return True
        if folder in (root, folder.parent):
            return False
        folder = folder.parent
