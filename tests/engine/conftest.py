"""Repositories with an engine, for tests of whose changes are whose."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from undo_cases import Bench, make_bench


@pytest.fixture(params=[False, True], ids=["sha1", "sha256"])
def any_bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = make_bench(tmp_path, sha256=request.param)
    yield made
    made.engine.store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = make_bench(tmp_path)
    yield made
    made.engine.store.close()
