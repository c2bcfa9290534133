"""What a person sees of a run on a terminal."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

from bench_command import Place
from bench_server import model_server, stub_first
from exercise_set import COMMANDS, write_exercises


def test_a_table_beside_the_lines(place: Place) -> None:
    """The model answers when the table was seen, so it is there in time."""
    write_exercises(place.exercises, ["go/exercises/practice/leap", "rust/exercises/practice/leap"])
    shown = b""
    with model_server(stub_first) as model:
        model.gate.clear()

        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "headgate", *place.words(model.url, *COMMANDS)],
            cwd=place.root,
            env=place.environment(TERM="xterm", COLUMNS="100"),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        with suppress(OSError):  # the terminal's other side is closed when the command has ended
            while piece := os.read(ours, 65536):
                shown += piece
                if b"try 1" in shown:
                    model.gate.set()
        os.close(ours)
        process.wait()
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "0 of 2 · 00:0" in text
    assert re.search(r"go/exercises/practice/leap  try 1 +0 requests  00:0\d", text)
    assert "\ngo/exercises/practice/leap: Finished Try2\r\n" in text
    assert "Passed within 2 tries: 100.0% (2 of 2;" in text
