"""Runs inside the project's tests while they are measured, in their Python; Headgate itself never imports it.

For `coverage`, it names the case that is running, by pytest's own id for it: each case of a parametrised test
is one, and what its fixtures and the processes that it starts run belongs to it. For pytest, it is a plugin
that has all tests run, whatever `-x` says, and writes down which of them fail.
"""

import os
from pathlib import Path
from types import FrameType
from typing import Any

from coverage import CoveragePlugin
from coverage.context import should_start_context_test_function

_OUTER = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
"""The case that has started this process, if one has."""


class Cases(CoveragePlugin):
    """Says which case a frame belongs to: pytest's, or else a function that is named like a test.

    It is asked at nearly every call of a function, and imports alone make many thousands: it must be quick.
    """

    running = _OUTER
    in_pytest = False

    def dynamic_context(self, frame: FrameType) -> str | None:
        if self.running or self.in_pytest:
            return self.running or None
        return should_start_context_test_function(frame)


def coverage_init(registry: Any, options: object) -> None:
    """Called by coverage."""
    registry.add_dynamic_context(Cases())


def pytest_configure(config: Any) -> None:
    """One failure alone shows too little."""
    config.option.maxfail = 0
    Cases.in_pytest = True


def pytest_runtest_setup(item: Any) -> None:
    """Called by pytest before it makes the fixtures of a case."""
    Cases.running = item.nodeid


def pytest_runtest_logfinish() -> None:
    """Called by pytest after it has torn them down."""
    Cases.running = _OUTER


def pytest_runtest_logreport(report: Any) -> None:
    """Output may show some of the failures only, and names cut short."""
    if report.failed:
        with Path(os.environ["HEADGATE_FAILED"]).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{report.nodeid}\n")
