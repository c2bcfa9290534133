"""Attempts to do harm, each tried for real: as a command of the model and as the code under test.

In bubblewrap none may get through. Without it, those that do are marked in attempts.yaml. The table in
docs/security.md is made from it.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from escapes.world import ATTEMPTS, commands_of, end_processes_called
from headgate.process import NoSandbox, find_bubblewrap

HERE = Path(__file__).parent
BATCHES = 4
_NOBODY = 65534
MISSING = find_bubblewrap(os.environ.get("PATH"))
needs_sandbox = pytest.mark.skipif(isinstance(MISSING, NoSandbox), reason=f"no sandbox here: {MISSING}")


@cache
def outcomes(mode: str, sandbox: str, folder: Path) -> dict[str, dict[str, object]]:
    """What came of each attempt. A process that an attempt has killed is followed by another."""
    left = (
        chosen(mode)
        if sandbox != "off"
        else [n for n, one in ATTEMPTS.items() if not one.get("sandbox_only")]
    )
    found: dict[str, dict[str, object]] = {}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    while left:
        environ["CANARY"] = canary = f"canary-{os.getpid()}-{mode}-{sandbox}"
        words = [sys.executable, str(HERE / "world.py"), str(folder / "world"), mode, sandbox, *left]
        done = subprocess.run(words, capture_output=True, text=True, env=environ, check=False)
        end_processes_called(f"neighbour-of-{canary}")  # that of a process which was killed
        forged = any(line.startswith("FORGED") for line in done.stdout.splitlines())
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                one = json.loads(line)
                found[one["id"]] = one
        if forged and "forge_stdout" in found:
            found["forge_stdout"]["harm"] = ["wrote to Headgate's output"]
        rest = [name for name in left if name not in found]
        if len(rest) == len(left) and done.returncode >= 0:
            raise AssertionError(f"{left[0]} was not tried: {done.stderr[-2000:]}")
        if rest and done.returncode < 0:  # the attempt after the last that was told has killed it
            found[rest[0]] = {"id": rest[0], "layer": "", "harm": ["killed Headgate"]}
            rest = rest[1:]
        left = rest
    return found


def chosen(mode: str, *, whole: bool = False) -> list[str]:
    """The attempts that are made in the sandbox: every other one as a command, the rest as steps.

    In whole tasks it is the other way round, so that each is made as both.
    """
    reserved = [name for name, one in ATTEMPTS.items() if one.get("by_model")]
    others = [name for name in ATTEMPTS if name not in reserved]
    return others[(mode == "steps") != whole :: 2] + (reserved if mode == "shell" else [])


@cache
def ordinary_user() -> tuple[str, dict[str, Any]]:
    """An interpreter, and the user who runs it: not root, if there is an interpreter that others can run."""
    if os.getuid() == 0:
        user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        for python in (sys.executable, "/usr/bin/python3"):
            with suppress(OSError):
                words = [python, "-c", "import headgate.engine"]
                done = subprocess.run(words, env=environment(), capture_output=True, check=False, **user)
                if not done.returncode:
                    return python, user
    return sys.executable, {}


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TMPDIR"))}
    places = [str(HERE.parent), *filter(None, sys.path)]
    return {**kept, "PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("escapes")


def test_there_are_enough() -> None:
    assert len(ATTEMPTS) >= 90


@needs_sandbox
@pytest.mark.parametrize("mode", ["shell", "steps"])
def test_nothing_gets_out_of_the_sandbox(mode: str, place: Path) -> None:
    found = outcomes(mode, "bwrap", place)
    assert {name: one["harm"] for name, one in found.items() if one["harm"]} == {}
    assert sorted(found) == sorted(chosen(mode))


@needs_sandbox
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_gets_out_in_any_stage_of_a_whole_task(batch: int) -> None:
    by_model, by_steps = (chosen(mode, whole=True)[batch::BATCHES] for mode in ("shell", "steps"))
    commands = [command for name in by_model for command in commands_of(name)]
    python, user = ordinary_user()
    with TemporaryDirectory(prefix="headgate-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        if user:
            os.chown(folder, _NOBODY, _NOBODY)
        words = [python, str(HERE / "whole_task.py"), f"{folder}/world", *by_model, "--", *by_steps]
        environ = {**environment(), "CANARY": f"canary-{os.getpid()}-task-{batch}", "HOME": folder}
        done = subprocess.run(words, capture_output=True, text=True, env=environ, check=False, **user)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["harm"] == []
    # The steps ran for run_tests and at the end, and in a copy of the tree as it was at the start.
    assert found["kinds"].count("verify_finished") == 2
    assert found["kinds"].count("baseline_verified") in (1, 2)  # of what passed there, and of what failed
    assert found["kinds"].count("tool_finished") == len(commands) + 4


@pytest.mark.parametrize("mode", ["shell", "steps"])
def test_what_holds_without_a_sandbox(mode: str, place: Path) -> None:
    marked = {name for name, one in ATTEMPTS.items() if one.get("through") in (mode, "both")}
    found = outcomes(mode, "off", place)
    assert {name: one["harm"] for name, one in found.items() if one["harm"] and name not in marked} == {}
