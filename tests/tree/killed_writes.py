"""Applies a change of several files, killed before each of its file operations in turn, and settles it.

Argument: an empty directory. Prints, as JSON, what the tree was after each kill, and after it was settled.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.core import FileHashes
from headgate.tree import DiskWorkspace, FileChange, settle_writes

FILE_OPERATIONS = frozenset({"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"})
BEFORE = {"a.txt": "same\n", "b.txt": "same\n", "gone.txt": "gone\n", "sub/c.txt": "c\n", "turned": "file\n"}
AFTER = {"a.txt": "A\n", "b.txt": "B\n", "new/deep/d.txt": "d\n", "sub/c.txt": "C\n", "turned/e.txt": "e\n"}


def changes() -> list[FileChange]:
    def content(files: dict[str, str], name: str) -> bytes | None:
        return files[name].encode() if name in files else None

    return [FileChange(name, content(BEFORE, name), content(AFTER, name)) for name in sorted(BEFORE | AFTER)]


def apply(root: Path, deadly: int) -> None:
    """In a process of its own; ends with 0 if there are not that many operations."""
    done = 0

    def audit(name: str, args: tuple[Any, ...]) -> None:
        nonlocal done
        if name in FILE_OPERATIONS:
            done += 1
            if done == deadly:
                os.kill(os.getpid(), signal.SIGKILL)

    workspace, wanted = DiskWorkspace(root), changes()
    sys.addaudithook(audit)
    workspace.apply(wanted)
    os._exit(0)


def tree(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


def killed_at(
    root: Path, deadly: int, hashes: Sequence[FileHashes]
) -> tuple[dict[str, str], dict[str, str]] | None:
    for name, text in BEFORE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    pid = os.fork()
    if pid == 0:
        apply(root, deadly)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
        return None
    found = tree(root)
    settle_writes(root, [hashes])
    return found, tree(root)


def main(top: Path) -> None:
    hashes = [
        FileHashes(path=change.path, before=change.before_hash, after=change.after_hash)
        for change in changes()
    ]
    seen = []
    while (trees := killed_at(top / f"{len(seen)}", len(seen) + 1, hashes)) is not None:
        seen.append(trees)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
