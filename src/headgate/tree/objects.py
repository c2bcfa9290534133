"""git objects in a folder of our own, each read back only if its content still has the hash that names it.

If a command has overwritten an object, reading it is an error. A false account of what changed is impossible.
"""

import os
import secrets
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import new as new_hash
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeVar

from headgate.first_use import dataclass
from headgate.regular_files import OwnFolder, PlantedFile
from headgate.tree.git_files import UnusualFiles, objects_in
from headgate.tree.git_repository import GitFailed, failure_of, read_regular, run_git

T = TypeVar("T")
Entry = tuple[str, str]
"""A mode, such as `100644`, and the name of an object."""
NESTED = "160000"
_TREE = "40000"
SHA256_LENGTH = 64
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_MANY = 50
_MOST_COMPRESSED = 2_000_000_000
# Contents are bytes here, whatever a `.gitattributes` among the files says. This file outranks those.
_ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff !whitespace\n"
_SHA256 = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
_FLAGS = (
    # Names are checked by the workspace; what is odd on other systems is fine on this one.
    *("-c", "core.protectNTFS=false"),
    *("-c", "core.protectHFS=false"),
    # What is recorded has to survive a power cut.
    *("-c", "core.fsync=loose-object"),
)


def object_name(kind: Literal["blob", "tree"], data: bytes, length: int) -> str:
    """git's name of a content, by the kind of hash that gives names of this length."""
    algorithm = "sha256" if length == SHA256_LENGTH else "sha1"
    return new_hash(
        algorithm, b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False
    ).hexdigest()


@dataclass(frozen=True, slots=True)
class DetachedGit:
    """An empty working tree, and a git folder that knows nothing but, perhaps, where objects are."""

    tree: Path
    environment: dict[str, str]

    def run(self, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs git in the tree and returns its result, also if it failed."""
        return run_git(self.tree, *_FLAGS, *args, env=self.environment, stdin=stdin)

    def git(self, *args: str, stdin: bytes = b"") -> bytes:
        """What git printed. GitFailed if it failed."""
        done = self.run(*args, stdin=stdin)
        if done.returncode:
            raise failure_of(done, args[0])
        return done.stdout


@contextmanager
def detached_git(*, sha256: bool, objects: Path | None = None) -> Iterator[DetachedGit]:
    """git without anybody's configuration, attributes, hooks or filters, gone with the block.

    Objects are found in, and go to, a folder that stays.
    """
    with TemporaryDirectory(prefix="headgate-") as temporary:
        top = Path(os.path.realpath(temporary))
        folder, tree = top / "git", top / "tree"
        tree.mkdir()
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(_SHA256 if sha256 else "")
        (folder / "info" / "attributes").write_text(_ATTRIBUTES)
        environment = {
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(tree),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        if objects is not None:
            environment["GIT_OBJECT_DIRECTORY"] = str(objects)
        yield DetachedGit(tree, environment)


class ObjectFolder:
    """Objects in `folder`; what is not there is looked for in `others`.

    It is in `own`, a folder of Headgate's, or is one itself: no link is followed there.
    """

    def __init__(
        self, folder: Path, others: Iterable[Path], *, sha256: bool, own: OwnFolder | None = None
    ) -> None:
        self.folder = folder
        self._own = own or OwnFolder(folder)
        self.sha256 = sha256
        self.length = SHA256_LENGTH if sha256 else 40
        self._drafts: list[tuple[str, Path]] = []
        self._stored: set[str] = set()
        self._others = [Path(os.path.realpath(other)) for other in others]
        lines = b"".join(os.fsencode(other) + b"\n" for other in self._others)
        with _writing(folder):
            self._own.make(folder / "info")
            if read_regular(folder / "info" / "alternates", len(lines) + 1) != lines:
                # Whole at any moment: another process may have git read it just now.
                self._move(self._write_draft(lines), folder / "info" / "alternates")

    def detached(self) -> AbstractContextManager[DetachedGit]:
        """git beside the repository, with these objects."""
        return detached_git(sha256=self.sha256, objects=self.folder)

    def find(self, names: Iterable[str]) -> set[str]:
        """Which of these objects there are in the other folders."""
        asked = set(names)
        with suppress(UnusualFiles):
            return {name for folder in self._others for name in objects_in(folder, asked)}
        listed = "".join(f"{name}\n" for name in asked).encode()
        with self.detached() as place:
            out = place.git("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=listed)
        return {name for name, kind in map(str.split, out.decode().splitlines()) if kind != "missing"}

    def has(self, name: str) -> bool:
        """Whether an object is here, in a file of its own."""
        with suppress(OSError):
            return self._place(name).stat().st_size > 0
        return False

    def write(self, kind: Literal["blob", "tree"], data: bytes) -> str:
        """Stores a content, safely only after the next `flush`; returns its name."""
        name = object_name(kind, data, self.length)
        if name not in self._stored and self._read(name, self.folder) is None:
            whole = b"%s %d\0" % (kind.encode(), len(data)) + data
            with _writing(self.folder):
                self._drafts.append((name, self._write_draft(zlib.compress(whole, 1))))
        self._stored.add(name)
        return name

    def flush(self, *, durably: bool = True) -> None:
        """Puts what was written in place. Events name it, so it has to survive a power cut as they do."""
        drafts, self._drafts = self._drafts, []
        if durably and len(drafts) > _MANY:
            os.sync()
        with _writing(self.folder):
            for name, draft in drafts:
                if durably and len(drafts) <= _MANY:
                    self._sync(draft)
                self._move(draft, self._place(name))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Contents by their names; what is not to be found is left out. GitFailed if one was written over."""
        left = list(dict.fromkeys(names))
        found: dict[str, bytes] = {}
        for folder in (self.folder, *self._others):  # git is asked only for what is in packs
            found |= {name: data for name in left if (data := self._read(name, folder)) is not None}
            left = [name for name in left if name not in found]
        return found | self._read_packed(left) if left else found

    def _read(self, name: str, folder: Path) -> bytes | None:
        """The content of an object in a file of its own; None if there is none, or another in its place."""
        packed = read_regular(folder / name[:2] / name[2:], _MOST_COMPRESSED)
        try:
            whole = zlib.decompress(packed) if packed else b""
        except zlib.error:
            return None
        algorithm = "sha256" if self.sha256 else "sha1"
        if new_hash(algorithm, whole, usedforsecurity=False).hexdigest() != name:
            return None
        return whole[whole.index(b"\0") + 1 :]

    def _read_packed(self, names: list[str]) -> dict[str, bytes]:
        with self.detached() as place:
            out = place.git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        found: dict[str, bytes] = {}
        for name, kind, data in batch_objects(out, names):
            if object_name("tree" if kind == b"tree" else "blob", data, self.length) != name:
                raise GitFailed(f"The git object {name} was written over: run git fsck, and fetch it again.")
            found[name] = data
        return found

    def _place(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:]

    def _write_draft(self, data: bytes) -> Path:
        draft = self.folder / f"tmp_obj_{secrets.token_hex(8)}"
        with os.fdopen(self._own.open(draft, _NEW, 0o444), "wb") as file:
            file.write(data)
        return draft

    def _sync(self, draft: Path) -> None:
        descriptor = self._own.open(draft)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _move(self, draft: Path, place: Path) -> None:
        with (
            self._own.enter(self.folder) as source,
            self._own.enter(place.parent, create=0o777) as target,
        ):
            os.replace(draft.name, place.name, src_dir_fd=source, dst_dir_fd=target)

    # Trees: every path in them, with the modes and names that git would give.

    def write_tree(self, changes: Mapping[str, Entry | None], like: str = "") -> str:
        """Stores a tree of these paths; returns its name.

        `like` is another tree: what is left is then all that it has, less the paths that are None. GitFailed
        if a part of that is gone.
        """
        return self._write_folder(changes, like) or self.write("tree", b"")

    def _write_folder(self, changes: Mapping[str, Entry | None], like: str) -> str:
        rows = {last: (mode, name) for mode, last, name in self._rows_of(like)} if like else {}
        below: dict[str, dict[str, Entry | None]] = {}
        new: dict[str, Entry] = {}
        for path, entry in changes.items():
            first, slash, rest = path.partition("/")
            if slash:
                below.setdefault(first, {})[rest] = entry
            elif entry:
                new[first] = entry
            elif rows.get(first, ("",))[0] != _TREE:
                rows.pop(first, None)
        for first, inner in below.items():
            mode, name = rows.pop(first, ("", ""))
            if folder := self._write_folder(inner, name if mode == _TREE else ""):
                rows[first] = _TREE, folder
        raw = sorted(_row(mode, last, name) for last, (mode, name) in (rows | new).items())
        return self.write("tree", b"".join(row for _, row in raw)) if raw else ""

    def _rows_of(self, tree: str) -> Iterator[tuple[str, str, str]]:
        content = self.read([tree]).get(tree)
        if content is None:
            raise GitFailed(f"The git object {tree} is gone, which a snapshot of the tree needs.")
        return _rows(content, self.length // 2)

    def read_tree(self, tree: str) -> dict[str, Entry]:
        """Every path in a tree. GitFailed if a part of it is gone."""
        found: dict[str, Entry] = {}
        level = [("", tree)]
        while level:
            contents = self.read(name for _, name in level)
            below: list[tuple[str, str]] = []
            for prefix, name in level:
                if name not in contents:
                    raise GitFailed(f"The git object {name} is gone, which a snapshot of the tree needs.")
                for mode, last, child in _rows(contents[name], self.length // 2):
                    if mode == _TREE:
                        below.append((f"{prefix}{last}/", child))
                    else:
                        found[prefix + last] = (mode, child)
            level = below
        return found


def batch_objects(out: bytes, names: Iterable[str]) -> Iterator[tuple[str, bytes, bytes]]:
    """The names, kinds and contents of objects, as `git cat-file --batch` prints them."""
    at = 0
    for name in names:
        end = out.index(b"\n", at)
        words = out[at:end].split()
        at = end + 1
        if len(words) == 3:
            data = out[at : at + int(words[2])]
            at += len(data) + 1
            yield name, words[1], data


def _row(mode: str, name: str, of: str) -> tuple[bytes, bytes]:
    """What git sorts an entry by, and the entry."""
    raw = os.fsencode(name)
    return raw + b"/" if mode == _TREE else raw, b"%s %s\0%s" % (mode.encode(), raw, bytes.fromhex(of))


def _rows(data: bytes, size: int) -> Iterator[tuple[str, str, str]]:
    """The modes, names and objects of a tree's own entries."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + size
        yield mode.decode(), os.fsdecode(name), data[end + 1 : at].hex()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except PlantedFile:
        raise
    except OSError as error:
        said = f"{error.filename or folder} cannot be written ({error.strerror})"
        raise GitFailed(f"{said}: free some space, or delete {folder} if it is damaged.") from error


def differing(old: Mapping[str, T], new: Mapping[str, T]) -> set[str]:
    """The paths that two listings do not have alike. Most are the same object in both."""
    if old is new:
        return set()
    found = {path for path, now in new.items() if (was := old.get(path)) is not now and was != now}
    if len(old) + sum(path not in old for path in found) != len(new):
        found.update(path for path in old if path not in new)
    return found
