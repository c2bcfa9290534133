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


class Cases(CoveragePlugin):
    """Says which case a frame belongs to, where pytest runs one."""

    def dynamic_context(self, frame: FrameType) -> str | None:
        return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] or None


def coverage_init(registry: Any, options: object) -> None:
    """Called by coverage."""
    registry.add_dynamic_context(Cases())


def pytest_configure(config: Any) -> None:
    """One failure alone shows too little."""
    config.option.maxfail = 0


def pytest_runtest_logreport(report: Any) -> None:
    """Output may show some of the failures only, and names cut short."""
    if report.failed:
        with Path(os.environ["HEADGATE_FAILED"]).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{report.nodeid}\n")
