"""Modules that Python has compiled beside the source of a repository."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from headgate.core import OWN_FOLDER

_CACHE = "__pycache__"
_SKIPPED = frozenset(
    {".git", OWN_FOLDER, _CACHE, "node_modules", ".venv", "venv", "site-packages", "dist-packages"}
)
"""By name alone: a command can put a file such as `pyvenv.cfg` anywhere."""


def remove_compiled_modules(root: Path) -> None:
    """Removes them, so that the next run compiles the source that there is.

    Python believes what a compiled module says of its source, so that a command can put other code there.
    Git ignores these files: no diff would show it. Installed packages are protected elsewhere.
    """
    for place, folders, _ in os.walk(root):
        if _CACHE in folders:
            _clear(Path(place, _CACHE))
        folders[:] = [name for name in folders if name not in _SKIPPED]


def _clear(cache: Path) -> None:
    """A link is removed itself. A command may have locked the folder that has to be written to."""
    if cache.is_symlink():
        _remove(cache)
        return
    with suppress(OSError):
        for entry in list(os.scandir(cache)):
            if entry.name.endswith((".pyc", ".pyo")) and not entry.is_dir(follow_symlinks=False):
                _remove(Path(entry.path))


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except PermissionError:
        with suppress(OSError):
            path.parent.chmod(path.parent.stat().st_mode | stat.S_IRWXU)
            path.unlink()
    except OSError:
        pass
