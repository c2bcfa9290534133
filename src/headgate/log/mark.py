"""How far the store has come, noted outside SQLite.

A log of SQLite that was cut or overwritten after a crash reads like one that ends earlier: tasks vanish, and
commands that have run would run again. The mark says that more was committed.
"""

import fcntl
import os
import sqlite3
from pathlib import Path

from headgate.errors import StoreError, describe_system
from headgate.patterns import regex
from headgate.regular_files import lock_within, make_own_folder, open_own

_FORM = regex(rb"(\d{18}) (\d{18})\n")


class SequenceMark:
    """The highest numbers of tasks and events that have to be in the store. Any process may raise them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[int, int]:
        """The numbers; zeros where nothing was noted yet."""
        try:
            descriptor = open_own(self.path)
        except FileNotFoundError:
            return 0, 0
        try:
            return self._read(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> tuple[int, int]:
        noted = os.pread(descriptor, 100, 0)
        found = _FORM.fullmatch(noted)
        if not noted.strip(b"\0"):  # a power cut came before the first one was written
            return 0, 0
        if found is None:
            raise StoreError(f"{self.path} is not what Headgate wrote: delete it if the tasks are all there")
        return int(found[1]), int(found[2])

    def advance(self, *, task: int = 0, event: int = 0) -> None:
        """Notes that a task and an event are committed. It is on the disk when this returns."""
        try:
            make_own_folder(self.path.parent)
            descriptor = open_own(self.path, os.O_RDWR | os.O_CREAT)
            try:
                if not lock_within(descriptor, fcntl.LOCK_EX):
                    raise StoreError(f"another process keeps {self.path} locked: end it and run again")
                known = self._read(descriptor)
                new = max(known[0], task), max(known[1], event)
                if new != known:
                    os.pwrite(descriptor, b"%018d %018d\n" % new, 0)
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(f"cannot write {describe_system(error, self.path)}") from error

    def forget(self) -> None:
        """A new store begins."""
        self.path.unlink(missing_ok=True)

    def check(self, noted: tuple[int, int], db: sqlite3.Connection, store: Path) -> None:
        """StoreError if the store has not all that was noted before it was opened."""
        there = dict(db.execute("SELECT name, seq FROM sqlite_sequence"))
        task, event = int(there.get("tasks") or 0), int(there.get("events") or 0)
        if task < noted[0] or event < noted[1]:
            raise StoreError(
                f"{store} has lost its latest entries: it ends with task t{task} and event {event}, and task"
                f" t{noted[0]} and event {noted[1]} were stored. Restore the file from a copy, or delete"
                f" {self.path} to continue with what is left: commands may then run a second time"
            )
