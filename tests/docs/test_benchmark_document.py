"""docs/benchmark.md: its commands print what it says, and its table of commands is that of the program."""

import re
from pathlib import Path

import pytest

from headgate.bench.languages import TOOLCHAINS
from launcher import run_headgate

PAGE = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text(encoding="utf-8")
SCRIPT = """
- calls: [{stage_done: {stage: solve, summary: It may do.}}]
- calls:
    - write_file: {path: greeting.txt, content: "hello\\n"}
    - stage_done: {stage: solve, summary: Now it greets.}
"""
FILES = {
    "solver.yaml": SCRIPT,
    "exercises/greeting/task.txt": "Write a greeting into greeting.txt.\n",
    "exercises/greeting/agent.yaml": "verification: {steps: [{name: tests, command: sh test_greeting.sh}]}\n",
    "exercises/greeting/test_greeting.sh": "grep -q hello greeting.txt\n",
    "exercises/greeting/greeting.txt": "\n",
    "config/headgate/config.yaml": "sandbox: off\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_commands_print_what_the_page_says(folder: Path) -> None:
    environment = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "PATH": "/usr/bin:/bin"}
    consoles = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = [part for console in consoles for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]]
    assert len(commands) == 3
    for part in commands:
        command, _, output = part.partition("\n")
        done = run_headgate(command.split()[1:], folder, environment)
        assert (done.returncode, done.stdout) == (0, output), (command, done.stderr)


def test_the_table_has_every_command() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.+?)`", PAGE, re.MULTILINE))
    assert {name: rows[name] for name in TOOLCHAINS} == {
        name: toolchain.command for name, toolchain in TOOLCHAINS.items()
    }
