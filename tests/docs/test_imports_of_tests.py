"""Tests use the faces of rooms, so that a module can move. Each folder of them is in one tier."""

import ast
from pathlib import Path

from tiers import FILES, FOLDERS

TESTS = Path(__file__).parents[1]
FACES = {"cli", "library", "models.network", "models.textcalls"}
"""Rooms whose modules are public by themselves (a command is its module), and second faces."""
KNOWN = {
    "bench.languages",
    "config.schema",
    "core.task",
    "core.view",
    "engine.assembly",
    "engine.tool_list",
    "engine.tree",
    "models.scripted",
    "models.servers",
    "models.wire.openai",
    "run.protected_run",
    "log.database",
    "tools.base",
    "tree.ignore",
}
"""Modules that tests of other rooms still reach into. This list may only become shorter."""


def foreign_modules() -> dict[str, str]:
    """Each module within a room that a test of another room imports from, and such a test."""
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        shown = path.relative_to(TESTS)
        if {"repo", "expected"} & set(shown.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else names
            for name in names:
                package, _, module = name.partition(".")
                room = module.split(".")[0]
                if package == "headgate" and "." in module and room != shown.parts[0]:
                    found[module] = shown.as_posix()
    return found


def is_face(module: str) -> bool:
    is_feature = module.startswith("features.") and module.removesuffix(".feature").count(".") == 1
    return is_feature or any(module == face or module.startswith(f"{face}.") for face in FACES)


def test_tests_import_the_faces_of_other_rooms() -> None:
    found = {module: test for module, test in foreign_modules().items() if not is_face(module)}
    assert {module: test for module, test in found.items() if module not in KNOWN} == {}
    assert KNOWN - found.keys() == set(), "no longer imported: remove it from KNOWN"


def test_each_folder_of_tests_is_in_one_tier() -> None:
    folders = {path.name for path in TESTS.iterdir() if any(path.rglob("test_*.py"))}
    assert folders == FOLDERS.keys()
    assert [path for path in FILES if not (TESTS / path).exists()] == []
