"""Bringing the index up to date with a tree: only files that changed are read, only new content is parsed."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from headgate.errors import ToolError
from headgate.features.scouts.code_map import MapLimits
from headgate.features.scouts.index import KnownFile, NewFile, OutlineIndex, mark_of
from headgate.file_stamps import Stamp, is_settled
from headgate.first_use import dataclass
from headgate.outlines import Outline, OutlinePool
from headgate.reading import word_set
from headgate.tree import Workspace

T = TypeVar("T")
_BATCH = 1_000
"""Files that are written to the index at once. What is done by then is kept if the rest is not."""
_BATCH_SECONDS = 20.0
_MOST_GONE = 500
_NOT_TEXT = word_set(
    """
    png jpg jpeg gif bmp ico webp tif tiff psd svg pdf zip gz tgz bz2 xz zst 7z rar jar war class o a so
    dylib dll exe bin pyc pyo whl woff woff2 ttf otf eot mp3 mp4 avi mov mkv wav flac ogg webm sqlite db
    npy npz pkl pt onnx safetensors gguf parquet lock map snap wasm dat
    """
)
"""Suffixes of what has no words to find it by, or only those that a program wrote."""


@dataclass(frozen=True)
class Tree:
    """A tree as it is now, with its files in the index."""

    files: dict[int, KnownFile]
    """By the number that each has in the index."""
    stamps: Mapping[str, Stamp]
    parsed: int
    gone: int
    """Files in the index that are not in the tree, or not as they are there."""
    made: dict[object, Any] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """The files that were not read."""
        return len(self.stamps) - len(self.files)

    @cached_property
    def paths(self) -> list[str]:
        """Of all files, sorted."""
        return [file.path for file in self.files.values()]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of each file in the index."""
        return {file.path: id for id, file in self.files.items()}

    @cached_property
    def usual_size(self) -> float:
        """The number of words in a file, in the mean."""
        total = sum(file.size for file in self.files.values())
        return total / len(self.files) if total else 1.0

    def once(self, make: Callable[[Sequence[str]], T]) -> T:
        """What a function makes of all paths: questions about the same tree share it."""
        if make not in self.made:
            self.made[make] = make(self.paths)
        found: T = self.made[make]
        return found


@dataclass
class _Change:
    """The files of which the index does not know the content that they have now."""

    stamps: dict[str, Stamp]
    by_digest: dict[tuple[str, bytes], int]
    now: int
    read: dict[str, bytes] = field(default_factory=dict)
    """Digests of what was read."""
    again: list[tuple[int, Stamp | None]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def settled(self, path: str) -> Stamp | None:
        stamp = self.stamps[path]
        return stamp if is_settled(stamp, self.now) else None


def refresh(
    index: OutlineIndex,
    workspace: Workspace,
    hidden: Callable[[str], bool],
    limits: MapLimits,
    stopped: Callable[[], bool] = lambda: False,
    likely: Callable[[str], float] = lambda path: 0.0,
    hear: Callable[[int, int], None] = lambda done, total: None,
) -> Tree:
    """Reads what has changed. Blocks; a long first time is cut off by its limit or by `stopped`.

    What is most `likely` wanted, by its path, is read first.
    """
    deadline = time.monotonic() + limits.seconds
    now = time.time_ns()
    stamps = _stamps(workspace, hidden, limits)
    known = index.known()
    if len(known) > 2 * len(stamps) + _MOST_GONE:  # most of it is of files as they were long ago
        index.clear()
        known = []
    marks = {path: mark_of(stamp) for path, stamp in stamps.items()}
    fresh = {file.path for file in known if file.mark and file.mark == marks.get(file.path)}
    change = _Change(stamps, {(file.path, file.digest): file.id for file in known}, now)
    pool = OutlinePool(lambda path: _new_content(workspace, path, change, limits))
    changed = sorted((path for path in stamps if path not in fresh), key=likely, reverse=True)
    outlines = _counted(pool.outlines(changed, deadline, stopped), len(changed), hear)
    parsed = _add(index, outlines, change)
    index.restamp(change.again)
    if change.read:
        known = index.known()
    files = _current(known, marks, change.read)
    return Tree(files, stamps, parsed, len(known) - len(files))


def _stamps(workspace: Workspace, hidden: Callable[[str], bool], limits: MapLimits) -> dict[str, Stamp]:
    """Every file that may appear in a map."""
    found: dict[str, Stamp] = {}
    for path in workspace.files():
        if path.rpartition(".")[2].lower() in _NOT_TEXT or hidden(path):
            continue
        stamp = workspace.stamp(path)
        if stamp is not None:
            found[path] = stamp
            if len(found) == limits.files:
                break
    return found


def _new_content(workspace: Workspace, path: str, change: _Change, limits: MapLimits) -> bytes | None:
    """The content to be parsed; None where the index has its outline, or nothing can be said of it."""
    data = _content(workspace, path, change.stamps[path], limits)
    digest = sha256(data).digest()
    with change.lock:
        change.read[path] = digest
        id = change.by_digest.get((path, digest))
        if id is not None:
            change.again.append((id, change.settled(path)))
    return None if id is not None else data


def _counted(
    outlines: Iterable[tuple[str, Outline | None]], total: int, hear: Callable[[int, int], None]
) -> Iterable[tuple[str, Outline | None]]:
    for done, outline in enumerate(outlines):
        hear(done, total)
        yield outline


def _add(index: OutlineIndex, outlines: Iterable[tuple[str, Outline | None]], change: _Change) -> int:
    """Puts files into the index whose content is new; returns how many."""
    batch: list[NewFile] = []
    parsed = 0
    written = time.monotonic()
    for path, outline in outlines:
        if outline is None:
            continue
        parsed += 1
        batch.append(NewFile(path, change.read[path], change.settled(path), outline))
        if len(batch) >= _BATCH or time.monotonic() - written > _BATCH_SECONDS:
            index.add(batch)
            batch, written = [], time.monotonic()
    if batch:
        index.add(batch)
    return parsed


def _content(workspace: Workspace, path: str, stamp: Stamp, limits: MapLimits) -> bytes:
    """Nothing of a file that is binary, too large or unreadable: its path is all that is known of it."""
    if stamp[3] > limits.file_bytes:
        return b""
    try:
        file = workspace.read(path)
    except ToolError:
        return b""
    return b"" if file.is_binary or file.path != path else file.data


def _current(known: list[KnownFile], marks: dict[str, str], read: dict[str, bytes]) -> dict[int, KnownFile]:
    """What the index has of the files as they are, or were when they were read for this map."""
    found: dict[str, KnownFile] = {}
    for file in known:
        if file.path not in marks:
            continue
        is_now = file.digest == read[file.path] if file.path in read else file.mark == marks[file.path]
        if is_now:
            found[file.path] = file
    return {found[path].id: found[path] for path in sorted(found)}
