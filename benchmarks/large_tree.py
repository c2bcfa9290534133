"""What a task costs in a repository of 50,000 files, beside git and ripgrep on the same files."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from starting import GIT, run_headgate, seconds_of

FILES = 50_000
TURNS = 6
FLOW = """name: large
stages:
  - {id: work, prompt: Work., allow_missing_done: true, tools: {allow: [read, run, ask_scout]}}
"""
ASKED = 1
"""Which of the questions to a scout counts, from 0: the second. A stage allows three."""


@cache
def make_tree(url: str) -> Path:
    """A repository with 500 folders of 100 files, made once."""
    place = Path(tempfile.gettempdir()) / f"headgate-bench-files-{FILES}"
    if (place / ".git" / "complete").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    for folder in range(FILES // 100):
        (place / f"package_{folder}").mkdir(parents=True)
        for file in range(100):
            text = f'"""Part {file}."""\n\n\ndef compute_{file}_{folder}(value):\n    return value + {file}\n'
            (place / f"package_{folder}" / f"part_{file}.py").write_text(text)
    (place / "large.yaml").write_text(FLOW)
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Add packages")):
        subprocess.run([*GIT, *command], cwd=place, check=True)
    # A task in such a tree is not the first: what one keeps for the next is there, as is the code map.
    for number in range(3):
        key = f"tree-first-{number}"
        to = f"{url}/{key}/{TURNS}/ask_scout/v1"
        run_headgate(place, to, key, "--flow", "large.yaml", "Look around.")
    (place / ".git" / "complete").touch()
    return place


def measure(url: str) -> Iterator[dict[str, Any]]:
    """Seconds of each, and of the program beside it."""
    tree = make_tree(url)
    beside = {
        "git status": ("git", "status", "--porcelain"),
        "rg PATTERN": ("rg", "-n", "def compute_1_", "."),
        "rg --files": ("rg", "--files", "-g", "**/part_1.py"),
    }
    seconds = {name: seconds_of(command, cwd=tree) for name, command in beside.items()}
    pairs = {
        "shell": "git status",
        "search": "rg PATTERN",
        "find_files": "rg --files",
        "ask_scout": "",
    }
    for script, other in pairs.items():
        key = f"tree-{script}"
        to = f"{url}/{key}/{TURNS}/{script}/v1"
        began, arrived = run_headgate(tree, to, key, "--flow", "large.yaml", "Look around.")
        if script == "shell":
            yield _row("to the first request", arrived[0] - began, "git status", seconds)
        between = [later - earlier for earlier, later in pairwise(arrived)]
        if len(between) < 2:
            raise SystemExit(f"The run with {script} ended after {len(arrived)} requests.")
        took = between[ASKED] if script == "ask_scout" else median(between[1:])
        yield _row(script, took, other, seconds)


def _row(name: str, took: float, other: str, seconds: dict[str, float]) -> dict[str, Any]:
    return {"name": name, "seconds": took, "beside": other, "beside_seconds": seconds.get(other, 0.0)}
