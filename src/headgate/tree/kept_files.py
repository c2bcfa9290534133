"""What the files of a large tree held, kept from one task to the next: only what changed is read again.

It is a cache. What in it does not fit the tree, git's index or the objects that there are counts for nothing.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from headgate.file_stamps import mode_of
from headgate.regular_files import OwnFolder
from headgate.tree.objects import Entry, ObjectFolder
from headgate.tree.tree_walk import MARKERS, PRIVILEGES, SeenFolder

FEWEST = 1_000
"""Files that were read. Fewer are read sooner than such a file is written."""
_MOST_BYTES = 500_000_000
_VERSION = 1


def keep_files(place: Path, seen: Mapping[str, SeenFolder]) -> None:
    """Keeps what the first look at a tree has found."""
    folders = []
    for path, folder in seen.items():
        if path.startswith(MARKERS[1:]):
            continue
        prefix = f"{path}/" if path else ""
        files = {
            name: known
            for name in folder.names
            if (known := folder.known[prefix + name]) and not mode_of(known[0]) & PRIVILEGES
        }
        is_whole = folder.is_whole and len(files) == len(folder.found)
        stamps, entries = [stamp for stamp, _ in files.values()], [entry for _, entry in files.values()]
        folders.append((path, folder.stamp if is_whole else (), folder.folders, [*files], stamps, entries))
    with suppress(OSError, TypeError):  # such as a name that is no text
        OwnFolder(place.parent).replace(place, orjson.dumps((_VERSION, folders)))


def recall_files(
    place: Path, tracked: Mapping[str, Entry], hidden: Callable[[str], bool], objects: ObjectFolder
) -> dict[str, SeenFolder]:
    """What was kept, as far as git tracks it: that is in no case ignored."""
    seen: dict[str, SeenFolder] = {}
    with suppress(OSError, ValueError, TypeError):
        version, folders = orjson.loads(OwnFolder(place.parent).read(place, _MOST_BYTES))
        for path, stamp, inner, names, stamps, entries in folders if version == _VERSION else ():
            prefix = f"{path}/" if path else ""
            folder = SeenFolder(tuple(stamp), None, inner, names)
            for name, file_stamp, (mode, blob) in zip(names, stamps, entries, strict=True):
                file, entry = prefix + name, (mode, blob)
                of_index = tracked.get(file)
                if of_index and (of_index == entry or objects.has(blob)) and not hidden(file):
                    folder.known[file] = tuple(file_stamp), entry
                    folder.found[file] = entry
                else:
                    folder.stamp = ()
            folder.is_whole = bool(folder.stamp)
            folder.stamps = [stamp for stamp, _ in folder.known.values()]
            seen[path] = folder
        return seen
    return {}
