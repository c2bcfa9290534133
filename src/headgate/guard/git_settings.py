"""git's hooks and settings, wherever a user's next git command finds them: they make git run programs.

The index, refs and objects are free. Commands may make repositories within the repository, but none whose
settings run programs.
"""

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from headgate.core import OWN_FOLDER, show_path
from headgate.guard.files import ProtectedFiles
from headgate.guard.records import DEFAULT_LIMITS, RecordStore
from headgate.guard.restore import Protected, Protection, Restored
from headgate.patterns import regex
from headgate.tree import common_folder, git, git_folder

_REASON = "commands may not change git's hooks and settings"
_SETTING = regex(
    r"(?:(?:modules|worktrees)/(?:.+/)?)?"
    r"(?:config|config\.worktree|commondir|hooks|hooks/.*|info|info/attributes|info/exclude)",
    re.DOTALL,
)
_LEADING = regex(r"(?:(?:modules|worktrees)(?:/.+)?/)?(?:hooks(?:/.*)?|info|modules|worktrees)", re.DOTALL)
_FREE = frozenset({"objects", "refs", "logs", "lfs", "headgate"})
_HOOKS = regex(
    r"(?:applypatch-msg|commit-msg|fsmonitor-watchman|p4-.*|post-.*|pre-.*|prepare-commit-msg|push-to-checkout"
    r"|reference-transaction|sendemail-validate|proc-receive|update)"
)
# Settings that `git init`, `git clone` and `git submodule add` write. None of them runs anything.
_SECTION = regex(r"\[(\w+)(?: \"[^\"\\]*\")?\]")
_HARMLESS = {
    "core": {
        *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase"),
        *("precomposeunicode", "symlinks", "worktree"),
    },
    "extensions": {"objectformat"},
    "remote": {"url", "fetch"},
    "branch": {"remote", "merge"},
    "submodule": {"url", "active"},
    "user": {"name", "email"},
}


def protect_git(repo: Path, folder: Path) -> Protection:
    """The protection of the hooks and settings that count in a repository. Contents are kept in `folder`."""
    own, common = git_folder(repo), common_folder(repo)
    parts: list[Protected] = [
        _of_repositories(repo, common, folder / "nested"),
        _of_git_folder(common, folder / "files"),
    ]
    if os.path.realpath(own) != os.path.realpath(common):
        parts.append(_of_git_folder(own, folder / "own"))
    return Protection([*parts, _SettingsElsewhere(repo, folder)])


def _is_setting(path: str) -> bool:
    return _SETTING.fullmatch(path) is not None


def _leads(folder: Path, path: str) -> bool:
    """Whether settings can be below a path within a git folder."""
    if not path.startswith(("modules/", "worktrees/")):
        return _LEADING.fullmatch(path) is not None
    above, _, name = path.rpartition("/")
    # A submodule may have such a name; a folder beside a HEAD is none.
    return name not in _FREE or not (folder / above / "HEAD").exists()


def _of_git_folder(place: Path, folder: Path) -> ProtectedFiles:
    return ProtectedFiles(
        place,
        _is_setting,
        enters=lambda path: _leads(place, path),
        folder=folder,
        reason=_REASON,
        label=".git/",
        accepts=lambda path, before, after: (
            path.startswith(("modules/", "worktrees/")) and _is_harmless(path, before, after)
        ),
    )


def _of_repositories(repo: Path, common: Path, folder: Path) -> ProtectedFiles:
    """The repositories within the repository; and the file that names the git folder, where there is one."""

    def covers(path: str) -> bool:
        place, mark, inside = f"/{path}".partition("/.git/")
        return (bool(place) and bool(mark) and _is_setting(inside)) or path.rpartition("/")[2] == ".git"

    def enters(path: str) -> bool:
        place, mark, inside = f"/{path}/".partition("/.git/")
        if not mark:
            return path != OWN_FOLDER
        return bool(place) and (not inside or _leads(repo / place[1:] / ".git", inside.rstrip("/")))

    def accepts(path: str, before: bytes | None, after: bytes) -> bool:
        if path.endswith("/.git"):
            named = os.fsdecode(after).removeprefix("gitdir:").strip()
            target = os.path.realpath(repo / path.removesuffix("/.git") / named)
            inside = target.startswith(os.path.realpath(common) + os.sep)
            return inside and before is None
        return path != ".git" and _is_harmless(path.partition("/.git/")[2], before, after)

    return ProtectedFiles(repo, covers, enters=enters, folder=folder, reason=_REASON, accepts=accepts)


def _is_harmless(path: str, before: bytes | None, after: bytes) -> bool:
    """Whether a new or changed setting of a repository within the repository may stay."""
    if before and not after:
        return False  # it was deleted
    name = path.rpartition("/")[2]
    if re.fullmatch(r"(?:.+/)?hooks(?:/.*)?", path, re.DOTALL):
        return before is None and name.endswith(".sample")
    if name == "commondir":
        return after.strip() == b"../.."
    if name in ("config", "config.worktree"):
        return set(_acting_lines(after)) <= set(_acting_lines(before or b""))
    return name in ("attributes", "exclude") and before is None


def _acting_lines(config: bytes) -> Iterator[tuple[str, str]]:
    """The lines of a configuration, with their sections, that may have an effect beyond the repository."""
    section = ""
    for line in map(str.strip, config.decode("utf-8", "surrogateescape").split("\n")):
        if not line or line.startswith(("#", ";")):
            continue
        header = _SECTION.fullmatch(line)
        key = line.partition("=")[0].strip().lower()
        if header:
            section = line
        elif (
            key not in _HARMLESS.get(section[1:-1].partition(" ")[0].lower(), ())
            or line.endswith("\\")
            or not _SECTION.fullmatch(section)
        ):
            yield section, line
            section = section if not line.startswith("[") else line


class _SettingsElsewhere:
    """See Protected. The hooks' folder, and settings outside git's folder, as the configuration names them.

    git is asked when the first command begins, after what is in its own folder was restored.
    """

    def __init__(self, repo: Path, folder: Path) -> None:
        self._repo, self._folder = Path(os.path.realpath(repo)), folder
        self._parts: list[tuple[Path, ProtectedFiles]] | None = None

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        return tuple(restored for _, part in self._found() for restored in part.begin())

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return tuple(restored for _, part in self._found() for restored in part.check_and_restore())

    def adopt(self) -> None:
        """See Protected."""

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected. A sandbox lets commands write nowhere outside the repository."""
        inside = (part for place, part in self._found() if place.is_relative_to(self._repo))
        return tuple(path for part in inside for path in part.paths(deciding=deciding))

    def forget(self) -> None:
        """See Protected."""
        for _, part in self._found():
            part.forget()
        for left in self._folder.glob("at-*"):  # of a process with another home folder
            RecordStore(left, DEFAULT_LIMITS).forget()
            if not any(left.iterdir()):
                left.rmdir()

    def _found(self) -> list[tuple[Path, ProtectedFiles]]:
        if self._parts is None:
            self._parts = [
                (place, self._protect(place, is_folder))
                for place, is_folder in dict.fromkeys(_places(self._repo))
            ]
        return self._parts

    def _protect(self, place: Path, is_folder: bool) -> ProtectedFiles:
        """The protection of a file, or of all that is in a folder of hooks, whether it exists or not."""
        root = self._repo
        if not place.is_relative_to(root) or place == root:
            root = place if is_folder else place.parent
            while not root.is_dir():
                root = root.parent
        path = place.relative_to(root).as_posix() if place != root else ""

        def covers(one: str) -> bool:
            if not path:
                return _HOOKS.fullmatch(one) is not None
            return one == path or (is_folder and one.startswith(f"{path}/"))

        return ProtectedFiles(
            root,
            covers,
            enters=lambda one: bool(path) and (f"{path}/".startswith(f"{one}/") or covers(one)),
            folder=self._folder / f"at-{sha256(os.fsencode(place)).hexdigest()[:16]}",
            reason=_REASON,
            label="" if root == self._repo else show_path(f"{root}/"),
        )


def _places(repo: Path) -> Iterator[tuple[Path, bool]]:
    """Files with settings, and the folder of the hooks: each with whether it is a folder."""
    internal = Path(os.path.realpath(common_folder(repo)))
    home = Path.home()
    personal = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    files = [home / ".gitconfig", *(personal / name for name in ("config", "attributes", "ignore"))]
    hooks = ""
    fields = git(repo, "config", "--list", "--show-origin", "-z").split(b"\0")
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        kind, _, name = os.fsdecode(origin).partition(":")
        key, _, value = os.fsdecode(setting).partition("\n")
        if kind == "file":
            files.append(repo / name)
            hooks = value if key == "core.hookspath" else hooks
    for file in files:
        # A link as the last part stays one: what it leads to is what git reads.
        yield from ((place, False) for place in _both(file) if internal not in place.parents)
    if hooks:
        for place in _both(repo / Path(hooks).expanduser()):
            # husky's own folder has scripts that run those in the folder above it.
            place = place.parent if place.name == "_" else place
            if place != internal and internal not in place.parents:
                yield place, True


def _both(path: Path) -> tuple[Path, Path]:
    """A path with a real parent, and what it leads to."""
    return Path(os.path.realpath(path.parent)) / path.name, Path(os.path.realpath(path))
