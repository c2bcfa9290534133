"""What makes git run programs or look away: its hooks and settings, which no command may change.

The index, refs and objects are free, so ordinary git commands work.
"""

from pathlib import Path

from headgate.protect.files import ProtectedFiles, Protection

_FILES = frozenset({"config", "config.worktree", "info/attributes", "info/exclude"})
_FOLDERS = frozenset({"hooks", "info"})
_REASON = "commands may not change git's hooks and settings"


def protect_git(repo: Path, common: Path, folder: Path) -> Protection:
    """The protection of a repository's git folder; in a worktree also of the file that names that folder."""
    files = ProtectedFiles(
        common,
        lambda path: path in _FILES or path.startswith("hooks/"),
        enters=lambda directory: directory in _FOLDERS or directory.startswith("hooks/"),
        folder=folder / "files",
        reason=_REASON,
        label=".git/",
    )
    if (repo / ".git").is_dir() and not (repo / ".git").is_symlink():
        return Protection([files])
    link = ProtectedFiles(
        repo,
        lambda path: path == ".git",
        enters=lambda directory: False,
        folder=folder / "link",
        reason=_REASON,
    )
    return Protection([link, files])
