"""Patches of Headgate's own, taken apart into files; and git away from any repository, which makes them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import new as new_hash
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.errors import StoreError
from headgate.reading import FileDiff, read_git_diff
from headgate.workspace.git_repository import failure_of, run_git

# git away from any repository: no configuration, attributes, hooks or filters of anybody's count.


SHA256_LENGTH = 64
# Contents are bytes here, whatever a `.gitattributes` among the files says. This file outranks those.
_ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff !whitespace\n"
_SHA256 = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
_FLAGS = (
    *("-c", "core.attributesFile=/dev/null"),
    # Names are checked by the workspace; what is odd on other systems is fine on this one.
    *("-c", "core.protectNTFS=false"),
    *("-c", "core.protectHFS=false"),
    # What is recorded has to survive a power cut.
    *("-c", "core.fsync=loose-object"),
)


@dataclass(frozen=True, slots=True)
class Detached:
    """An empty working tree, and a git folder that knows nothing but, perhaps, where objects are."""

    tree: Path
    environment: dict[str, str]

    def run(self, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs git in the tree, whatever comes of it."""
        return run_git(self.tree, *_FLAGS, *args, env=self.environment, stdin=stdin)

    def git(self, *args: str, stdin: bytes = b"") -> bytes:
        """What git printed. GitFailed if it failed."""
        done = self.run(*args, stdin=stdin)
        if done.returncode:
            raise failure_of(done, args[0])
        return done.stdout


@contextmanager
def detached_git(*, sha256: bool, objects: Path | None = None) -> Iterator[Detached]:
    """Such a place, gone with the block. Objects are found in, and go to, a folder that stays."""
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
            "GIT_ATTR_NOSYSTEM": "1",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        if objects is not None:
            environment["GIT_OBJECT_DIRECTORY"] = str(objects)
        yield Detached(tree, environment)


# A git-style patch, taken apart into its files. Only what Headgate's own patches hold is understood.


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file."""

    raw: bytes
    old: str | None
    """The path before; None for a new file."""
    new: str | None
    """The path after; None for a file that is deleted, another one for a file that is moved."""
    is_executable: bool | None
    """Whether the file is to be executable; None if that stays."""
    after_hash: str | None
    """git's name of the content after; None if the content stays."""
    hunks: tuple[str, ...]
    """The places of the hunks, as their headers name them; none for a binary file."""
    is_binary: bool

    def leaves(self, data: bytes) -> bool:
        """Whether this is the content that the patch makes; what it does not change counts as that."""
        return self.after_hash is None or self.after_hash == blob_name(data, len(self.after_hash))


def parse_patch(patch: bytes) -> tuple[FilePatch, ...]:
    """The files of a patch, in order. StoreError if it is not one of ours."""
    text = patch.decode("utf-8", "surrogateescape")
    if text and not text.startswith("diff --git "):
        raise StoreError("The proposal's patch does not start with a file.")
    lines = [line + b"\n" for line in patch.split(b"\n")]
    lines[-1] = lines[-1].removesuffix(b"\n")
    return tuple(
        _file_patch(file, b"".join(lines[file.first - 1 : file.last])) for file in read_git_diff(text)
    )


def _file_patch(file: FileDiff, raw: bytes) -> FilePatch:
    index = file.header("index ")
    after_hash = None if index is None else index.partition(" ")[0].partition("..")[2]
    return FilePatch(
        raw,
        None if file.is_new else file.old,
        None if file.is_deleted else file.new,
        file.is_executable,
        after_hash,
        tuple(hunk.place.text for hunk in file.hunks if hunk.place),
        file.is_binary,
    )


def blob_name(data: bytes, length: int) -> str:
    """git's name of a content, by the kind of hash that gives names of this length."""
    algorithm = "sha256" if length == SHA256_LENGTH else "sha1"
    return new_hash(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
