"""When and where results were made: what a reader of a page needs to judge and to repeat them."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import headgate
from headgate.core import Data
from headgate.tree import GitFailed, run_git


class RunFacts(Data):
    """What was true when a run started. Results do not depend on it as they do on the settings."""

    started: str
    """When, in UTC."""
    version: str
    """Headgate's version."""
    commit: str = ""
    """Headgate's own commit, if it runs from a clone."""
    exercises_commit: str = ""
    """The last commit of the exercises, if git has them."""
    machine: str
    """The system, its processors and memory, and Python: not the name of the machine."""


def observe_facts(exercises: Path, now: float) -> RunFacts:
    """What is true now. Blocking, for a moment."""
    package = Path(headgate.__file__).resolve().parent
    clone = package.parent.parent
    return RunFacts(
        started=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        version=headgate.__version__,
        commit=_commit(clone) if (clone / "pyproject.toml").is_file() else "",
        exercises_commit=_commit(exercises.resolve()),
        machine=_describe_machine(),
    )


def _commit(folder: Path) -> str:
    """The last commit that changed something in a folder, and whether something there is not committed."""
    places = (folder, *folder.parents)
    root = next((place for place in places if (place / ".git").exists()), None)
    if root is None:
        return ""
    try:
        found = run_git(root, "log", "-1", "--abbrev=12", "--format=%h", "HEAD", "--", str(folder))
        changed = run_git(root, "status", "--porcelain", "--untracked-files=no", "--", str(folder))
    except (GitFailed, OSError):
        return ""
    commit = found.stdout.decode().strip()
    if found.returncode or changed.returncode or not commit:
        return ""  # such as a repository without commits
    return f"{commit}{' with changes' if changed.stdout.strip() else ''}"


def _describe_machine() -> str:
    count = os.cpu_count() or 1
    processors = f"{count} processor{'' if count == 1 else 's'}"
    try:
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB of memory"
    except (OSError, ValueError):
        memory = ""
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    return ", ".join(filter(None, (system, processors, memory, f"Python {platform.python_version()}")))
