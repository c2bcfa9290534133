"""Which paths git ignored at one moment: the ignore files are read once, and new ones change nothing."""

import os
from functools import lru_cache
from pathlib import Path

from headgate.host.git import git_path
from headgate.host.globs import Rules
from headgate.host.ignore import MAX_IGNORE_FILE
from headgate.host.internal import RESERVED


class IgnoredPaths:
    """Answers for any path, whether it exists or not. A repository's own files count, a user's do not."""

    def __init__(self, repo: Path) -> None:
        exclude = _read(repo / git_path(repo, "info/exclude"))
        self._exclude = Rules(exclude.split("\n"))
        self._rules: dict[str, Rules] = {}
        self._ignored_directory = lru_cache(maxsize=65536)(self._judge_directory)
        for place, directories, files in os.walk(repo):
            base = "" if place == str(repo) else Path(place).relative_to(repo).as_posix()
            prefix = f"{base}/" if base else ""
            if ".gitignore" in files:
                self._rules[base] = Rules(_read(Path(place, ".gitignore")).split("\n"))
            directories[:] = [
                name
                for name in directories
                if name.lower() not in RESERVED and not self.directory(prefix + name)
            ]

    def file(self, path: str) -> bool:
        """Whether a file of this path is ignored, by itself or with a directory above it."""
        parent = path.rpartition("/")[0]
        return (bool(parent) and self.directory(parent)) or self._judge(path, is_dir=False)

    def directory(self, path: str) -> bool:
        """Whether a directory, and with it all that is below, is ignored."""
        return self._ignored_directory(path)

    def _judge_directory(self, path: str) -> bool:
        parts = path.split("/")
        return any(self._judge("/".join(parts[:depth]), is_dir=True) for depth in range(1, len(parts) + 1))

    def _judge(self, path: str, *, is_dir: bool) -> bool:
        base = path
        while base:
            base = base.rpartition("/")[0]
            rules = self._rules.get(base)
            verdict = rules.verdict(path[len(base) + 1 if base else 0 :], is_dir=is_dir) if rules else None
            if verdict is not None:
                return verdict
        return bool(self._exclude.verdict(path, is_dir=is_dir))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_IGNORE_FILE).decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    except OSError:
        return ""  # git takes an ignore file that it cannot read for an empty one
