"""A git-style patch, taken apart into its files. Only what Headgate's own patches hold is understood."""

import re
from dataclasses import dataclass
from hashlib import new as new_hash

from headgate.core.pathtext import parse_path
from headgate.errors import StoreError
from headgate.host.detached import SHA256_LENGTH

_FILE = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_BODY = re.compile(rb"^(?:--- |GIT binary patch$)", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -[0-9,]+ \+[0-9,]+ @@", re.MULTILINE)
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_QUOTED_PAIR = re.compile(rf"({_QUOTED}) {_QUOTED}")


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
    """The headers of the hunks; none for a binary file."""

    @property
    def is_binary(self) -> bool:
        return self.after_hash is not None and b"\nGIT binary patch\n" in self.raw

    def leaves(self, data: bytes) -> bool:
        """Whether this is the content that the patch makes; what it does not change counts as that."""
        return self.after_hash is None or self.after_hash == blob_name(data, len(self.after_hash))


def parse_patch(patch: bytes) -> tuple[FilePatch, ...]:
    """The files of a patch, in order. StoreError if it is not one of ours."""
    parts = _FILE.split(patch)
    if parts[0]:
        raise StoreError("The proposal's patch does not start with a file.")
    return tuple(map(_parse, parts[1:]))


def blob_name(data: bytes, length: int) -> str:
    """git's name of a content, by the kind of hash that gives names of this length."""
    algorithm = "sha256" if length == SHA256_LENGTH else "sha1"
    return new_hash(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _parse(raw: bytes) -> FilePatch:
    body = _BODY.search(raw)
    head = raw[: body.start()] if body else raw
    first, *lines = head.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    old = new = _path(first)
    after_hash: str | None = None
    is_executable: bool | None = None
    for line in lines:
        key, value = next(((key, line.removeprefix(key)) for key in _KEYS if line.startswith(key)), ("", ""))
        match key:
            case "rename from ":
                old = parse_path(value)
            case "rename to ":
                new = parse_path(value)
            case "index ":
                after_hash = value.partition(" ")[0].partition("..")[2]
            case "new mode " | "new file mode ":
                is_executable = value.endswith("755")
    hunks = tuple(match[0].decode() for match in _HUNK.finditer(raw, body.start())) if body else ()
    return FilePatch(
        raw,
        None if any(line.startswith("new file mode ") for line in lines) else old,
        None if any(line.startswith("deleted file mode ") for line in lines) else new,
        is_executable,
        after_hash,
        hunks,
    )


_KEYS = ("rename from ", "rename to ", "index ", "new mode ", "new file mode ")


def _path(line: str) -> str:
    """The path in `diff --git a/PATH b/PATH`; for a file that is moved, nothing that counts."""
    names = line.removeprefix("diff --git ")
    quoted = _QUOTED_PAIR.fullmatch(names)
    if quoted:
        return parse_path(quoted[1])[2:]
    return names[2 : len(names) // 2]
