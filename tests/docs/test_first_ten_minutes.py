"""docs/first-ten-minutes.md: each of its commands runs, in order, and prints what the page says."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "first-ten-minutes.md").read_text(encoding="utf-8")
_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\x08]")
EXPLORE = """
- calls:
    - read_files: {paths: [prices.py, test_prices.py]}
    - stage_done: {stage: explore, summary: The discount is a factor and no percentage.}
- calls: [{plan_tasks: {action: create, tasks: [{id: a, description: Change total in prices.py}]}}]
"""
FIX = """
- calls:
    - edit_file: {path: prices.py, old: 1 - discount, new: 1 - discount / 100}
    - stage_done: {stage: implement, summary: total() divides the discount by 100.}
"""
SCRIPTS = {
    "run": EXPLORE + FIX,
    "run --flow staged": f"{EXPLORE}- calls: [{{write_file: {{path: test_prices.py, content: ''}}}}]{FIX}",
    "ask": "- calls: [{read_file: {path: prices.py}}]\n"
    "- text: total() takes it off as a percentage (prices.py:2).\n",
}


class Shell:
    """Runs the page's commands one after the other, in the folder that the last `cd` led to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONIOENCODING": "utf-8",
            "TERM": "xterm",
            "GIT_AUTHOR_NAME": "n",
            "GIT_AUTHOR_EMAIL": "e@x",
            "GIT_COMMITTER_NAME": "n",
            "GIT_COMMITTER_EMAIL": "e@x",
        }

    def run(self, command: str) -> str:
        """What a command prints on both streams. It succeeds."""
        script = self.folder / "model.yaml"
        uses = [words for words in SCRIPTS if command.startswith(f"headgate {words}")]
        script.write_text(SCRIPTS[max(uses, key=len)] if uses else "- text: x\n")
        self.environment["HEADGATE_MODEL"] = f"script:{script}"
        done = subprocess.run(
            ["sh", "-c", f"{command} && pwd > {self.folder}/where"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout)
        self.folder = Path((self.folder / "where").read_text().strip())
        return done.stdout

    def leave_the_terminal(self) -> str:
        """What `headgate` shows on a terminal until it ends, when `/quit` was typed at its prompt."""
        ours, theirs = pty.openpty()
        words = [sys.executable, "-m", "headgate"]
        process = subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        shown, typed = b"", False
        with suppress(OSError):  # the other side is closed when the command has ended
            while piece := os.read(ours, 65536):
                shown += piece
                if not typed and b">" in _CODES.sub(b"", shown).partition(b"/help")[2]:
                    typed = bool(os.write(ours, b"/quit\r"))
        os.close(ours)
        assert process.wait() == 0, shown
        return shown.decode("utf-8", "replace")

    def open_the_page(self) -> str:
        """The page at the address that `headgate serve` prints."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        words = [sys.executable, "-m", "headgate", "serve", "--port", port]
        process = subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr
        address = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+\d", line)))
        with urllib.request.urlopen(address) as response:
            page: str = response.read().decode()
        process.send_signal(signal.SIGINT)
        process.communicate()
        return page


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def steps() -> list[tuple[str, str]]:
    consoles = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    parts = [part for console in consoles for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def test_it_is_short() -> None:
    assert len(PAGE.splitlines()) <= 90


def test_every_command_runs_and_prints_what_the_page_says(shell: Shell) -> None:
    for command, output in steps():
        if command == "headgate":
            assert "/help" in shell.leave_the_terminal()
        elif command == "headgate serve":
            assert "How does total() use the discount?" in shell.open_the_page()
        else:
            printed = shell.run(command)
            pattern = (
                re.escape(output)
                .replace(re.escape("..."), ".*")
                .replace(
                    r".*\
",
                    r"(?:.*\n)?",
                )
            )
            assert re.fullmatch(pattern, printed, re.DOTALL), (command, printed)
