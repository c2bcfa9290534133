"""What git's own files say: read here where their form is the usual one; for any other, git is asked.

A git process costs about 4 ms of CPU, as much as all else that a small task does before its first request.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

from headgate.file_stamps import Stamp, stamp_of
from headgate.first_use import dataclass, regex
from headgate.tree.git_repository import (
    common_folder,
    git,
    git_folder,
    read_regular,
    refuse_pipes,
    run_git,
)

_MOST_READ = 2_000_000_000
_MOST_PACKED_REFS = 50_000_000
_SECTION = regex(r'\[([A-Za-z0-9-]+)(?: "([^"\\]*)")?\]')
_VALUE = regex(r'([A-Za-z][A-Za-z0-9-]*) *= *((?:[^\s"\\#;](?:[^\t"\\#;]*[^\s"\\#;])?)?)')
_HEAD = regex(rb"(ref: refs/[^\0\n]+|[0-9a-f]{40})\n")
_ENTRY = 62
"""Bytes of the index before a path."""
_ELSEWHERE = (b"link", b"sdir")
"""Marks of an index whose other half is in another file, or in which folders stand for files."""
_USUAL_MODES = (b"\0\0\x81\xa4", b"\0\0\x81\xed", b"\0\0\xa0\0", b"\0\0\xe0\0")
_PACK = b"\xfftOc\0\0\0\2"
_NAMES_AT = 8 + 256 * 4
_TABLE_AT = 8


class UnusualFiles(Exception):
    """Their form is not the usual one: git has to be asked."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One of git's settings, where it was found."""

    scope: str
    """`system`, `global`, `local` or `worktree`."""
    file: str
    """As git names it: a path from the repository, or an absolute one. Empty if it is in no file."""
    key: str
    """In small letters, but for the part in the middle: `includeIf.onbranch:Main.path`."""
    value: str


_outside: dict[tuple[object, ...], tuple[Setting, ...]] = {}
"""What git has said of the settings outside repositories, by what that depends on."""


def read_settings(repo: Path) -> tuple[Setting, ...]:
    """All settings that hold in a repository, in the order in which later ones win; none if git fails."""
    try:
        own = _own_settings(repo)
    except UnusualFiles:
        return _ask_settings(repo)
    home = os.environ.get("HOME", "")
    above = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = ("/etc/gitconfig", f"{above}/git/config", f"{home}/.gitconfig")
    depends = (os.environ.get("PATH"), files, *map(_stamp, files))
    if depends not in _outside:
        asked = _ask_settings(repo)
        found = tuple(one for one in asked if one.scope in ("system", "global"))
        # What is included may depend on the repository, or on whether it is there.
        if not asked or any(one.file not in files or one.key.startswith("include") for one in found):
            return asked
        _outside.clear()
        _outside[depends] = found
    return (*_outside[depends], *own)


def _stamp(file: str) -> Stamp | None:
    try:
        return stamp_of(Path(file).stat())
    except OSError:
        return None


def _ask_settings(repo: Path) -> tuple[Setting, ...]:
    done = run_git(repo, "config", "--list", "--show-scope", "--show-origin", "-z")
    if done.returncode:
        return ()
    fields = [*map(os.fsdecode, done.stdout.split(b"\0"))]
    found = []
    for scope, origin, text in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        kind, _, name = origin.partition(":")
        key, _, value = text.partition("\n")
        found.append(Setting(scope, name if kind == "file" else "", key, value))
    return tuple(found)


def _own_settings(repo: Path) -> list[Setting]:
    """The settings of a repository that is the user's own, has its only working tree, and uses SHA-1."""
    folder = repo / ".git"
    for place in (repo, folder):
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise UnusualFiles
    opened = refuse_pipes(folder)
    if "commondir" in opened or not _HEAD.fullmatch(_read(folder / "HEAD")):
        raise UnusualFiles
    found, section = [], ""
    for line in os.fsdecode(_read(folder / "config")).split("\n"):
        text = line.strip(" \t")
        if begun := _SECTION.fullmatch(text):
            name, part = begun.groups()
            section = name.lower() + (f".{part}" if part is not None else "")
        elif value := _VALUE.fullmatch(text):
            found.append(Setting("local", ".git/config", f"{section}.{value[1].lower()}", value[2]))
        elif text and text[0] not in "#;":
            raise UnusualFiles
    if any(_is_unusual(one) for one in found):
        raise UnusualFiles
    return found


def _is_unusual(setting: Setting) -> bool:
    """Whether more than this file decides what the repository is, or what its settings are."""
    key, value = setting.key, setting.value
    if key in ("core.bare", "core.repositoryformatversion"):
        return value not in ("false", "0")
    return key.startswith(("include", "extensions.", "core.worktree", "."))


def _read(path: Path) -> bytes:
    """A file that git needs, whole."""
    data = read_regular(path, _MOST_READ)
    if not data:
        raise UnusualFiles
    return data


def tracked_files(repo: Path, naming: str = "") -> dict[str, tuple[str, str]]:
    """Every path in the index, with its mode and its object; perhaps only those with `naming` in them."""
    try:
        _own_settings(repo)
        return _read_index(repo / ".git" / "index", naming.encode())
    except (UnusualFiles, OSError, ValueError, IndexError):
        rows = [row.partition(b"\t") for row in git(repo, "ls-files", "-s", "-z").split(b"\0") if row]
        found = {os.fsdecode(path): entry.decode().split() for entry, _, path in rows}
        return {path: (entry[0], entry[1]) for path, entry in found.items()}


def _read_index(file: Path, naming: bytes) -> dict[str, tuple[str, str]]:
    data = _read(file)
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    if data[:4] != b"DIRC" or version not in (2, 3):
        raise UnusualFiles
    if naming and not any(text in data for text in (naming, *_ELSEWHERE)):
        return {}
    found, at = {}, 12
    modes = {of: f"{int.from_bytes(of):06o}" for of in _USUAL_MODES}
    for _ in range(count):
        path_at = at + _ENTRY + (2 if data[at + 60] & 0x40 else 0)
        end = data.index(b"\0", path_at)
        mode = modes.get(of := data[at + 24 : at + 28]) or f"{int.from_bytes(of):06o}"
        path = data[path_at:end].decode("utf-8", "surrogateescape")
        found[path] = (mode, data[at + 40 : at + 60].hex())
        at = end + 8 - (end - at) % 8
    while at < len(data) - 20:
        if data[at : at + 1].islower():  # the other half is in another file, or folders stand for files
            raise UnusualFiles
        at += 8 + int.from_bytes(data[at + 4 : at + 8])
    if at != len(data) - 20:
        raise UnusualFiles
    return found


def objects_in(folder: Path, names: Iterable[str]) -> set[str]:
    """Which of these objects are in a folder of git's. UnusualFiles if it names further folders."""
    if (folder / "info" / "alternates").exists():
        raise UnusualFiles
    asked = {name: bytes.fromhex(name) for name in names}
    found = {name for name in asked if _is_filled(Path(f"{folder}/{name[:2]}/{name[2:]}"))}
    for pack in (folder / "pack").glob("*.idx"):
        left = asked.keys() - found
        if left and pack.with_suffix(".pack").exists():
            index = read_regular(pack, _MOST_READ)
            if not index.startswith(_PACK):
                raise UnusualFiles
            found |= {name for name in left if _is_packed(index, asked[name])}
    return found


def _is_filled(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


def _is_packed(index: bytes, name: bytes) -> bool:
    """Whether a pack has an object: its index says how many names begin with up to each byte."""
    entry, size = _TABLE_AT + name[0] * 4, len(name)
    first = int.from_bytes(index[entry - 4 : entry]) if name[0] else 0
    last = int.from_bytes(index[entry : entry + 4])

    def read(number: int) -> bytes:
        return index[_NAMES_AT + number * size : _NAMES_AT + (number + 1) * size]

    at = bisect_left(range(last), name, first, last, key=read)
    return at < last and read(at) == name


# Repositories within the repository: git is not asked, because it would read their settings.


def is_repository(folder: Path) -> bool:
    return (folder / ".git").is_file() or (folder / ".git" / "HEAD").is_file()


def commit_of(folder: Path) -> str:
    """The commit that is checked out; empty if there is none, or git's files do not say."""
    own, shared = git_folder(folder), common_folder(folder)
    head = os.fsdecode(read_regular(own / "HEAD", 4096)).strip()
    for _ in range(5):  # a branch may be the name of another one
        if not head.startswith("ref:"):
            break
        name = head.removeprefix("ref:").strip()
        loose = read_regular(own / name, 4096) or read_regular(shared / name, 4096)
        head = os.fsdecode(loose).strip() or _packed(shared, name)
    return head if len(head) in (40, 64) and not head.strip("0123456789abcdef") else ""


def _packed(folder: Path, name: str) -> str:
    for line in read_regular(folder / "packed-refs", _MOST_PACKED_REFS).splitlines():
        commit, _, ref = line.partition(b" ")
        if os.fsdecode(ref) == name:
            return commit.decode("ascii", "replace")
    return ""
