"""A place for exercises and results."""

from pathlib import Path

import pytest
from bench_command import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
