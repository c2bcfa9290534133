"""Copies of protected files whose task has no log: a command deleted `.headgate`, and Headgate was killed.

Without the log nobody knows what was protected, but the copies in git's own folder say what was there when
the command began. That is restored before task ids start over, because another task would take the
copies for its own.
"""

import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from headgate.errors import HeadgateError, StoreError
from headgate.process import FileLock, kill_leftovers
from headgate.protect import Protected, ProtectedFiles, RecordStore, Restored, protect_git
from headgate.store import Folder
from headgate.workspace import git, internal_name

_GIT = "git"
_MOST_NAMED = 10


def restore_orphaned_copies(folder: Folder, *, new_store: bool = False) -> tuple[str, ...]:
    """Restores protected files from copies that no store knows; returns notes for people. Blocks.

    A store that was just started, because the old one was damaged, knows of no copies either.
    """
    copies = folder.safe / "protected"
    if (folder.database.exists() and not new_store) or not copies.is_dir():
        return ()
    lock = FileLock(folder.lock)
    if not lock.try_acquire():
        folder.check_deleted()
        return ()  # another process has just restored it
    try:
        return _restore(folder, copies)
    finally:
        lock.release()


def _restore(folder: Folder, copies: Path) -> tuple[str, ...]:
    kill_leftovers(folder.repo)
    restored: list[Restored] = []
    trouble = ""
    running = any(
        RecordStore(path.parent).load()[1] for path in copies.rglob("records.jsonl") if path.is_file()
    )
    for part in sorted(copies.glob("*/*/")):
        try:
            protected = _protection(folder.repo, part)
            found = protected.check_and_restore()
            restored += found
            if not any(one.problem for one in found):
                protected.forget()
        except (HeadgateError, OSError) as error:
            trouble = str(error).rstrip(".")
    for head in copies.glob("*/head.json"):  # which commits are protected is not known any more
        head.unlink()
    place = _move_aside(copies)
    return (_note(restored, trouble, place),) if running or trouble else ()


def _protection(repo: Path, part: Path) -> Protected:
    """What one folder of copies protects: git's files as always, of the others what is recorded."""
    if part.name == _GIT:
        common = repo / os.fsdecode(git(repo, "rev-parse", "--git-common-dir")).rstrip("\n")
        return protect_git(repo, common, part)
    records, _ = RecordStore(part).load()
    if not all(map(_is_plain, records)):
        raise StoreError(f"{part / 'records.jsonl'} names files outside the repository.")
    folders = {above for path in records for above in _above(path)}
    return ProtectedFiles(repo, records.__contains__, enters=folders.__contains__, folder=part)


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return not {"", ".", ".."}.intersection(parts) and internal_name(parts[0]) is None


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _move_aside(copies: Path) -> Path | None:
    """Renames the folder of copies if files are left in it; returns the new place, or None."""
    if not any(path.is_symlink() or not path.is_dir() for path in copies.rglob("*")):
        shutil.rmtree(copies)
        return None
    for number in count(1):
        place = copies.with_name(f"{copies.name}-lost-{number}")
        if not os.path.lexists(place):
            copies.rename(place)
            return place
    raise AssertionError


def _note(restored: list[Restored], trouble: str, place: Path | None) -> str:
    done = [one.path for one in restored if not one.problem]
    failed = [f"{one.path} ({one.problem})" for one in restored if one.problem]
    said = [f"Restored: {_list(done)}."] if done else []
    if failed:
        said.append(f"Could not be restored: {_list(failed)}.")
    if trouble:
        said.append(f"Protected files could not be checked ({trouble}).")
    if failed or trouble:
        said.append(f"For these files, their original content is kept in {place}.")
    elif place:
        said.append(f"The versions that were replaced are in {place}.")
    killed = "A task was killed while a command ran, and its log is lost."
    return " ".join([killed, *said])


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
