"""`headgate bench` as a process, in a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from launcher import run_headgate

PATIENCE = 180.0
"""Seconds after which a test gives up; nothing takes that long unless it hangs."""
OUT = "out"


class Place:
    """A folder with exercises, and the results that commands leave in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.exercises = root / "set"
        self.out = root / OUT
        config = root / "config" / "headgate" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("sandbox: off\n")
        (root / "tmp").mkdir()

    def environment(self, **env: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        own = {"HOME": self.root, "XDG_CONFIG_HOME": self.root / "config", "TMPDIR": self.root / "tmp"}
        return {**kept, **{name: str(value) for name, value in own.items()}, **env}

    def words(self, url: str, *args: str) -> list[str]:
        model = ["--model", "openai/m", "--base-url", url]
        return ["bench", str(self.exercises), "--out", OUT, *model, *args]

    def bench(self, url: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs the exercises to the end of all."""
        return run_headgate(self.words(url, *args), self.root, self.environment(**env))

    def headgate(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_headgate(args, self.root, self.environment(**env))

    def start(self, url: str, *args: str) -> "subprocess.Popen[str]":
        """Starts a real process, which can be killed."""
        return subprocess.Popen(
            [sys.executable, "-m", "headgate", *self.words(url, *args)],
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def results(self) -> list[dict[str, Any]]:
        """The whole lines of the file with results."""
        file = self.out / "results.jsonl"
        whole = file.read_bytes() if file.exists() else b""
        return [json.loads(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()]

    def untimed(self) -> bytes:
        """The file without what depends on time."""
        lines = [{key: value for key, value in line.items() if key != "timing"} for line in self.results()]
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def left_in_tmp(self) -> list[str]:
        return [path.name for path in (self.root / "tmp").iterdir() if path.name.startswith("headgate-bench")]


def until(holds: Callable[[], bool]) -> None:
    """Waits for something that another process does."""
    deadline = monotonic() + PATIENCE
    while not holds():
        assert monotonic() < deadline, "it did not happen"
        sleep(0.02)
