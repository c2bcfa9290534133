"""What a process that was killed leaves running in its repository.

Every command carries a variable that says which process started it and where. That tells a leftover from what
belongs to somebody else: it ran in this repository, and who started it is gone.
"""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from headgate.core.settings import OWN_FOLDER
from headgate.host.reaper import Found, can_look, end_all, environment_of, look_around, look_at, send

_PREFIX = "_HEADGATE_COMMAND_"


def new_mark(directory: Path) -> tuple[str, str]:
    """The variable that marks a command, and all that it starts: a name of its own, and whose it is.

    The name is what is unique, so commands inside commands carry the marks of all of them.
    """
    return _PREFIX + uuid.uuid4().hex, f"{_owner(os.getpid())} {os.path.realpath(directory)}"


def kill_leftovers(repo: Path) -> int:
    """Ends what processes that are gone left running in a repository; returns how many processes that were.

    Only for who holds the repository's lock. Not hit are commands whose starter lives, those of another
    repository, be it one inside this, and the command, if any, that this process is itself a part of. Blocks
    for about a second where they do not listen. Does nothing on systems that have no /proc.
    """
    root = Path(os.path.realpath(repo))
    inside = {name for name in os.environ if name.startswith(_PREFIX)}

    def is_leftover(name: str, owner: str, place: Path) -> bool:
        return name not in inside and _is_of(root, place) and _is_gone(owner)

    return len(_end_marked(is_leftover))


def kill_own_commands() -> int:
    """Kills, without asking first, every command that this process runs with all that they started."""
    own = _owner(os.getpid())
    return len(_end_marked(lambda name, owner, place: owner == own, grace=0))


def _end_marked(is_meant: Callable[[str, str, Path], bool], **options: float) -> set[Found]:
    """Ends the processes with a mark that is meant, and what shares a session with one of them.

    Each command has a session of its own, so what drops its variables is still known by that.
    """
    if not can_look():
        return set()
    spared = set(_ancestry())
    own_session = os.getsid(0)

    def look() -> set[Found]:
        there = set(look_around()) - spared
        marked = {found for found in there if any(is_meant(*mark) for mark in _marks(found.pid))}
        sessions = {found.session for found in marked} - {own_session}
        return marked | {found for found in there if found.session in sessions}

    def signal_them(alive: set[Found], number: signal.Signals) -> None:
        for found in alive:
            send(found, number)

    return end_all(look, signal_them, **options)


def _marks(pid: int) -> Iterator[tuple[str, str, Path]]:
    """The marks that a process carries: each one's name, who made it, and where the command ran."""
    for variable in environment_of(pid).split(b"\0"):
        if variable.startswith(_PREFIX.encode()):
            name, _, value = os.fsdecode(variable).partition("=")
            owner, _, place = value.partition(" ")
            if place:
                yield name, owner, Path(place)


def _owner(pid: int) -> str:
    """A process, so that no other is ever taken for it: where its number counts, the number, the start."""
    found = look_at(pid)
    return f"{_namespace()}.{pid}.{found.started}" if found else f"{_namespace()}.{pid}.0"


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0  # no such thing here


def _is_gone(owner: str) -> bool:
    """Whether the process is known not to run any more. Of one in another container nothing is known."""
    try:
        namespace, pid, started = map(int, owner.split("."))
    except ValueError:
        return False
    if namespace != _namespace():
        return False
    found = look_at(pid)
    return found is None or found.started != started


def _is_of(root: Path, place: Path) -> bool:
    """Whether a command that ran in this place was of this repository, and not of one that lies inside it."""
    for folder in (place, *place.parents):
        if folder == root:
            return True
        if (folder / OWN_FOLDER).is_dir():
            return False
    return False


def _ancestry() -> Iterator[Found]:
    """This process, the one that started it, and so on."""
    found = look_at(os.getpid())
    while found:
        yield found
        found = look_at(found.parent)
