"""Commands without a sandbox cannot look into the process that started them, unless they are root's."""

import os
import shutil
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, os, pathlib, sys
from headgate.process import is_inside_command, run_command

def run(command):
    return asyncio.run(run_command(command, cwd=pathlib.Path("/"), env={"PATH": os.environ["PATH"]},
                                   timeout=60, max_output=10_000))

for command in sys.argv[1:]:
    done = run(command)
    print(done.exit_code != 0, done.output)
print(is_inside_command(pathlib.Path("/")), run("cat /proc/self/environ | tr '\\\\0' ' '").exit_code)
"""
ATTEMPTS = [
    "cat /proc/$PPID/environ",
    "echo FORGED > /proc/$PPID/fd/1",
    "head -c 1 /proc/$PPID/maps",
    "ls /proc/$PPID/cwd/",
    "exec 3<> /proc/$PPID/mem",
]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_commands_cannot_look_into_headgate() -> None:
    words = [sys.executable, "-c", SCRIPT, *ATTEMPTS]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may look into every process, and setpriv is not there to take that right away")
        words = ["setpriv", "--bounding-set", "-all", *words]
    env = {**os.environ, "PRIVATE": "CANARY"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert "CANARY" not in done.stdout
    assert "FORGED" not in done.stdout.splitlines()
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith(("True", "False"))] == [
        *["True"] * len(ATTEMPTS),
        "False",
    ], done.stdout
    assert done.stdout.splitlines()[-1] == "False 0"
