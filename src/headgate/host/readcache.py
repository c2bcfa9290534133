"""Files as they were last read, as long as nothing suggests that they have changed."""

import time
from collections import OrderedDict
from threading import Lock

from headgate.host.atomic import Fingerprint
from headgate.host.workspace import File

# Clocks of file systems are coarse: a file changed twice within a tick looks unchanged, so one that was
# changed just now is not kept yet.
_SETTLED_NS = 2_000_000_000


class ReadCache:
    """The least recently used go first once the limit in bytes is passed. Safe to use from threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._files: OrderedDict[str, tuple[Fingerprint, File]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, path: str, fingerprint: Fingerprint) -> File | None:
        """The file, if it was read when it had this fingerprint."""
        with self._lock:
            kept = self._files.get(path)
            if kept is None or kept[0] != fingerprint:
                return None
            self._files.move_to_end(path)
            return kept[1]

    def put(self, file: File, fingerprint: Fingerprint) -> None:
        """Keeps a file, unless it is large or was changed a moment ago."""
        if len(file.data) * 8 > self._max_bytes or time.time_ns() - max(fingerprint[3:]) < _SETTLED_NS:
            return
        with self._lock:
            self._drop(file.path)
            self._files[file.path] = fingerprint, file
            self._bytes += len(file.data)
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._files)))

    def forget(self, path: str) -> None:
        """Drops a file that is about to be written."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        kept = self._files.pop(path, None)
        if kept is not None:
            self._bytes -= len(kept[1].data)
