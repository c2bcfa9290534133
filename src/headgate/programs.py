"""Programs that Headgate itself runs. None may come from a repository, where a command could put one."""

import os
import shutil
from functools import cache
from pathlib import Path


def find_program(name: str, path: str | None = None) -> str | None:
    """A program on the PATH, or on another search path, that no repository holds."""
    return shutil.which(name, path=trusted_path(os.environ.get("PATH", os.defpath) if path is None else path))


@cache
def trusted_path(path: str) -> str:
    """The folders of a search path that are in no repository."""
    folders = [folder for folder in path.split(os.pathsep) if Path(folder).is_absolute()]
    return os.pathsep.join(
        folder for folder in folders if not _is_in_repository(Path(os.path.realpath(folder)))
    )


def _is_in_repository(folder: Path) -> bool:
    try:
        return any((above / ".git").exists() for above in (folder, *folder.parents))
    except PermissionError:
        return True  # no program in a folder that cannot be entered can be run anyway
