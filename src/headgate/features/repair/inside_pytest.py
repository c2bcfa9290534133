"""Runs inside the project's pytest, in its Python: tries many changes, each in a process of its own.

pytest is started once, as the project's own command starts it. Before it reads anything of the project, it is
forked for each change. What a child reports is a hint and no verdict, as the code under test could have
written it: Headgate tries what passes here again, in the ordinary way. Headgate itself never imports this.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

_FOLDER = "HEADGATE_CHANGES"
"""Names the folder with `work.json`. Each child leaves its result there; `count` says how many have ended."""

_CACHES = ("__pycache__", ".pytest_cache", ".hypothesis", "node_modules")
_MOST_FILES = 5_000


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> Iterator[None]:
    """Called by pytest before it loads the project's `conftest.py`. Only children go on from here."""
    folder = os.environ.pop(_FOLDER, "")
    if folder:
        _try_all(early_config, Path(folder))
    yield


def _try_all(config: Any, folder: Path) -> None:
    """Forks for one change after the other; returns in the children, and ends the process that forks."""
    work = json.loads((folder / "work.json").read_bytes())
    loaded = {os.path.realpath(getattr(each, "__file__", None) or "") for each in list(sys.modules.values())}
    ends, clean = time.monotonic() + work["seconds"], _look(work["tree"], work["paths"])
    try:
        (folder / "begun").touch(exist_ok=False)
    except FileExistsError:  # the command starts pytest more than once
        _give_up(folder)
    if threading.active_count() > 1 or loaded & set(work["paths"]):  # what is loaded would not be changed
        _give_up(folder)
    for number, files in enumerate(work["changes"]):
        if number and time.monotonic() > ends:
            break
        before = {path: Path(path).read_bytes() for path in files}
        for path, new in files.items():
            Path(path).write_bytes((folder / new).read_bytes())
        child = os.fork()
        if not child:
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            config.pluginmanager.register(_Trial(folder / f"{number}.json", work["failing"]))
            return
        _wait_for(child, work["longest"])
        for path, old in before.items():
            Path(path).write_bytes(old)
        (folder / "count").write_text(str(number + 1), encoding="utf-8")
        if _look(work["tree"], work["paths"]) != clean:  # the next one would find what this one left
            if not files:
                _give_up(folder)
            break
    os._exit(0)


def _give_up(folder: Path) -> NoReturn:
    """Ends the process: nothing can be tried in this way."""
    (folder / "unfit").touch()
    os._exit(1)


def _look(tree: str, changing: list[str]) -> dict[str, tuple[int, int]]:
    """When each file was changed and how long it is, those that are changed for a trial left out."""
    found: dict[str, tuple[int, int]] = {}
    for folder, inner, files in os.walk(tree):
        inner[:] = [name for name in inner if name not in _CACHES]
        for name in files:
            if (path := f"{folder}/{name}") not in changing and len(found) < _MOST_FILES:
                state = os.lstat(path)
                found[path] = state.st_mtime_ns, state.st_size
    return found


def _wait_for(child: int, seconds: float) -> None:
    """Waits for a child, and kills it if it takes too long."""
    ends, pause = time.monotonic() + seconds, 0.002
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)


class _Trial:
    """What a child reports. Tests that failed before run first; if all of them fail again, no others run."""

    def __init__(self, result: Path, failing: list[str]) -> None:
        self.result, self.failing = result, frozenset(failing)
        self.left, self.failed = set(failing), set[str]()
        self.session: Any = None

    def pytest_configure(self, config: Any) -> None:
        """One failure alone shows too little, and nobody reads how it is told."""
        config.option.maxfail = 0
        config.option.tbstyle = "no"

    def pytest_sessionstart(self, session: Any) -> None:
        self.session = session

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.nodeid not in self.failing)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.left.discard(nodeid)
        if self.failing and not self.left and self.failing <= self.failed:
            self.session.shouldfail = "nothing is fixed"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        passed = int(exitstatus) == 0 and session.testscollected > 0
        told = json.dumps({"passed": passed, "failed": sorted(self.failed)})
        self.result.write_text(told, encoding="utf-8", errors="replace")
        os._exit(0)  # nothing that follows is needed, and some of it takes long
