"""What a real server reads of a session of a flow, by its own counts; the replies are scripted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.local_server import find_model
from headgate.errors import ConfigError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def read(flow: str, visibility: str) -> float:
    """The tokens that are read, beside those that nobody could avoid."""
    try:
        find_model()
    except ConfigError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "prompt_reuse.py", flow, visibility],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["replies_left"] == 0
    return float(row["evaluated"] / row["unavoidable"])


def test_a_server_of_ones_own_reads_each_part_of_a_session_once() -> None:
    assert read("staged", "auto") <= 1.01


def test_with_lists_that_follow_the_stage_it_reads_much_again() -> None:
    assert read("staged", "hidden") >= 2
