"""What a session asks of the machine, counted: figures that are the same on every run, however busy it is.

They are for finding out what costs, and for tests: a change that makes a turn do more shows up in them.
"""

import sqlite3
import sys
import threading
from collections import Counter
from typing import Any

_STATS = {"stat", "lstat", "fstat"}
_POLLED = ("SELECT action FROM control", "PRAGMA data_version")
"""What is asked at intervals: how often depends on the time that a session takes."""


class Counts:
    """Counts while it is entered.

    `statements` of SQL and `commits`; `bytes_encoded` as JSON for the wire and the log; `hops` to other
    threads and back; `processes`; `stats`, of which each may be a walk over a network file system; `folders`
    that were listed; `syncs` to the disk.
    """

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._is_counting = False
        sys.addaudithook(self._see_event)
        threading.setprofile(self._see_call)
        sys.setprofile(self._see_call)

    def __enter__(self) -> "Counts":
        self.found.clear()
        self._is_counting = True
        return self

    def __exit__(self, *_: object) -> None:
        self._is_counting = False

    def _see_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_counting and event == "subprocess.Popen":
            self.found["processes"] += 1
        elif self._is_counting and event in ("os.scandir", "os.listdir"):
            self.found["folders"] += 1

    def _see_statement(self, statement: str) -> None:
        if not self._is_counting or statement.startswith(_POLLED):
            return
        self.found["statements"] += 1
        self.found["commits"] += statement == "COMMIT"

    def _see_call(self, frame: Any, what: str, argument: Any) -> None:
        if what == "c_call":
            name, owner = argument.__name__, getattr(argument, "__self__", None)
            if name == "execute" and isinstance(owner, sqlite3.Connection):
                owner.set_trace_callback(self._see_statement)
            if not self._is_counting:
                return
            if name in _STATS:
                self.found["stats"] += 1
            elif name in ("fsync", "fdatasync"):
                self.found["syncs"] += 1
        elif not self._is_counting:
            return
        elif what == "call" and frame.f_code.co_name in ("run_in_executor", "enqueue"):
            self.found["hops"] += 1
        elif what == "return" and frame.f_code.co_name in ("encode_json", "model_dump_json"):
            self.found["bytes_encoded"] += len(argument or b"")
