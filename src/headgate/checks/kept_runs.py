"""How long the logs of verification runs are kept."""

import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from headgate.checks.verify import MANIFEST, RUN_ID

_DAY = 86400.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def prune_runs(
    runs: Path, keep: Collection[str], now: float, max_runs: int = 20, max_age_days: float = 14
) -> list[str]:
    """Removes runs older than `max_age_days` and the oldest beyond `max_runs`; returns which, oldest first.

    Runs in `keep` stay and do not count. A run's age is what its id says, not what its files say. Nothing
    else in the folder is touched and no symbolic link is followed. What cannot be removed is not in the
    answer and is tried again next time.
    """
    try:
        folder = os.open(runs, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return []  # nothing was ever verified here, or this is a link, which is not ours
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        old = _expendable(names, keep, now - max_age_days * _DAY, max_runs)
        return [name for name in old if _remove(folder, name)]
    finally:
        os.close(folder)


def _expendable(names: list[str], keep: Collection[str], oldest: float, max_runs: int) -> list[str]:
    dated = [(at, name) for name in names if name not in keep and (at := _started_at(name)) is not None]
    dated.sort(reverse=True)
    stays = [at >= oldest and place < max_runs for place, (at, _) in enumerate(dated)]
    return [name for stay, (_, name) in zip(stays, dated, strict=True) if not stay][::-1]


def _started_at(name: str) -> float | None:
    """When the run began, from its id; None for a name that is not a run's."""
    found = re.fullmatch(RUN_ID, name)
    if not found:
        return None
    try:
        return datetime.strptime(found[1], "%Y%m%d_%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None  # thirteen months and the like: no run of ours


def _remove(folder: int, name: str) -> bool:
    """The manifest goes first: a removal that is interrupted must not leave what looks like a whole run."""
    with suppress(OSError):  # there may be none, and what else is wrong shows below
        run = os.open(name, _FOLDER, dir_fd=folder)
        try:
            os.unlink(MANIFEST, dir_fd=run)
        finally:
            os.close(run)
    shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False
