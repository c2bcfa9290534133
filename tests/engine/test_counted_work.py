"""What a turn and a task ask of the machine, exactly: a change that makes them do more is seen here.

The figures may fall. Where one rises, the change that raises it says why it is worth that.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TURN = {"commits": 1, "folders": 0, "hops": 2, "processes": 0, "statements": 10, "stats": 5, "syncs": 0}
TASK = {"commits": 10, "hops": 14, "processes": 0, "statements": 126, "syncs": 6}
"""Of a task that reads one file and ends."""
ABOUT = {"folders": (11, 2), "stats": (373, 10)}
"""Of the same task, and how many more or fewer there may be: what was just written is looked at again."""
BYTES_OF_TURN = 1_780
"""Encoded, for the model and for the log. They hold times, whose length differs a little."""


def measured_counts(home: Path) -> dict[int, dict[str, int]]:
    """What whole tasks did, in a process that had carried one out before, by their number of turns."""
    server = subprocess.Popen([sys.executable, BENCHMARKS / "server.py"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        ended = subprocess.run(
            [
                sys.executable,
                "-P",
                BENCHMARKS / "peers" / "headgate_task.py",
                "--url",
                url,
                "--turns",
                "1,10,30",
                "--count",
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(BENCHMARKS)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    lines = [line for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == 3, ended.stderr
    rows = [json.loads(line.removeprefix("RESULT ")) for line in lines]
    return {row["turns"]: row["counts"] for row in rows}


def test_a_turn_and_a_task_do_exactly_so_much(tmp_path: Path) -> None:
    counts = measured_counts(tmp_path)

    further = {what: counts[30].get(what, 0) - counts[10].get(what, 0) for what in (*TURN, "bytes_encoded")}

    assert {what: round(further[what] / 20) for what in TURN} == TURN
    assert abs(further["bytes_encoded"] / 20 - BYTES_OF_TURN) < 10
    assert {what: counts[1].get(what, 0) for what in TASK} == TASK
    assert all(abs(counts[1][what] - count) <= most for what, (count, most) in ABOUT.items()), counts[1]
