"""git in a temporary folder, without anybody's configuration, attributes, hooks or filters."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.workspace.git_repository import failure_of, run_git

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
class DetachedGit:
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
def detached_git(*, sha256: bool, objects: Path | None = None) -> Iterator[DetachedGit]:
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
        yield DetachedGit(tree, environment)
