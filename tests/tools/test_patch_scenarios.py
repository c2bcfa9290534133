"""Patches that other people collected as folders: a tree, a patch, and the tree after it."""

from pathlib import Path

import pytest
from memory_workspace import MemoryWorkspace, call

from cases import CASES, case_path
from headgate.errors import ToolFailed
from headgate.tools import apply_patch

SCENARIOS = CASES / "codex-apply-patch" / "scenarios"
NAMES = sorted(path.name for path in SCENARIOS.iterdir() if path.is_dir()) if SCENARIOS.exists() else []
ATOMIC = "015_failure_after_partial_success_leaves_changes"
"""Theirs keeps what came before the failure; ours changes nothing when any part fails."""
AMBIGUOUS = "016_pure_addition_update_chunk"
"""Theirs appends lines that have no context to the end of the file. Ours asks where they go: a model that
means the middle of the file would not notice."""
REFUSED = {"005", "006", "007", "008", "009", "012", "013", "015", "016"}


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file()) if folder.exists() else ()
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", NAMES)
def test_scenario(name: str) -> None:
    folder = case_path("codex-apply-patch", "scenarios", name)
    before = tree(folder / "input")
    workspace = MemoryWorkspace(before)
    patch = (folder / "patch.txt").read_bytes().decode()
    if name[:3] in REFUSED:
        with pytest.raises(ToolFailed):
            call(apply_patch, workspace, patch=patch)
    else:
        call(apply_patch, workspace, patch=patch)
    assert workspace.data == (before if name in (ATOMIC, AMBIGUOUS) else tree(folder / "expected"))


def test_all_scenarios_are_read() -> None:
    case_path("codex-apply-patch", "scenarios")
    assert len(NAMES) == 25
