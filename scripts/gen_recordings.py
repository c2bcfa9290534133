"""Writes recordings of runs without a model: a refused edit, a stuck task, and the interactive terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pyte
from gen_demo_picture import TARGET, WIDTH, draw

DOCS = TARGET.parent
HEADGATE = [sys.executable, "-m", "headgate"]
ROWS = 60
PATIENCE = 300.0
BOUNDARY = "migrations/**"
REFUSED = {
    "task": "Add a field for the colour of an item",
    "agent.yaml": "task_flow_mode: flat\nmodel: script:script.yaml\nscouts: off\n"
    "verification: {steps: [{name: check, command: grep -q colour items.py}]}\n",
    "migrations/001.sql": "CREATE TABLE item (name TEXT);\n",
    "items.py": "FIELDS = ['name']\n",
    "script.yaml": """
- calls: [{write_file: {path: migrations/001.sql, content: "CREATE TABLE item (name TEXT, colour TEXT);"}}]
- calls: [{shell: {command: "sed -i 's/name TEXT/name TEXT, colour TEXT/' migrations/001.sql"}}]
- calls: [{write_file: {path: items.py, content: "FIELDS = ['name', 'colour']\\n"}}]
- calls: [{stage_done: {stage: work, summary: "Added it to items.py; the migration is out of bounds."}}]
""",
}
STUCK = {
    "task": "Make the total right",
    "agent.yaml": "task_flow_mode: flat\nmodel: script:script.yaml\nscouts: off\n"
    "verification: {steps: [{name: total, command: grep -qx 42 total.txt}]}\n",
    "total.txt": "41\n",
    "script.yaml": """
- calls: [{write_file: {path: total.txt, content: "forty-two\\n"}}]
- calls: [{stage_done: {stage: work, summary: "The total is right, and all tests pass."}}]
- calls: [{stage_done: {stage: work, summary: "It is right."}}]
- calls: [{stage_done: {stage: work, summary: "It is right, I am sure."}}]
- text: The check may want digits, which nobody has said.
""",
}
TERMINAL = {
    "task": "",
    "agent.yaml": "task_flow_mode: flat\nmodel: script:script.yaml\nscouts: off\n"
    "verification: {steps: [{name: check, command: grep -q hello greet.py}]}\n",
    "greet.py": "def greet(name):\n    return name\n",
    "script.yaml": """
- calls: [{write_file: {path: greet.py, content: "def greet(name):\\n    return f'hello {name}'\\n"}}]
- calls: [{stage_done: {stage: work, summary: Greets by name.}}]
""",
}


def make_repository(place: Path, files: Mapping[str, str]) -> Path:
    """A repository with these files, committed."""
    repo = place / "shop"
    for name, text in files.items():
        if name != "task":
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            (repo / name).write_text(text, encoding="utf-8")
    who = ("-c", "user.name=Headgate", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
    for args in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "A shop")):
        subprocess.run(["git", "-C", str(repo), *args], check=True, stdin=subprocess.DEVNULL)
    return repo


def environment(place: Path) -> dict[str, str]:
    """Nothing of the user's own settings."""
    own = {
        "HOME": str(place),
        "XDG_CONFIG_HOME": str(place / "config"),
        "XDG_STATE_HOME": str(place / "state"),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADGATE_", "XDG_"))}
    config = place / "config" / "headgate" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("approvals: never\n", encoding="utf-8")
    return {**kept, **own, "COLUMNS": str(WIDTH), "TERM": "xterm"}


def record_run(files: Mapping[str, str], *options: str) -> list[str]:
    """What `headgate run` prints."""
    with tempfile.TemporaryDirectory() as folder:
        repo = make_repository(Path(folder), files)
        done = subprocess.run(
            [*HEADGATE, "run", files["task"], *options],
            cwd=repo,
            env=environment(Path(folder)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    shown = " ".join(
        f"'{word}'" if " " in word or "*" in word else word for word in (files["task"], *options)
    )
    return [f"$ headgate run {shown}", "", *without_names(done.stdout).splitlines()]


def record_terminal() -> list[str]:
    """What somebody sees who types a task, looks at the diff, and goes on."""
    with tempfile.TemporaryDirectory() as folder:
        repo = make_repository(Path(folder), TERMINAL)
        screen = pyte.Screen(WIDTH, ROWS)
        stream = pyte.ByteStream(screen)
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(repo)
            os.execve(HEADGATE[0], HEADGATE, environment(Path(folder)))

        def wait(*texts: str) -> None:
            deadline = time.monotonic() + PATIENCE
            while not all(text in "\n".join(screen.display) for text in texts):
                if time.monotonic() > deadline:
                    raise SystemExit("The terminal shows something else:\n" + "\n".join(screen.display))
                if select.select([master], [], [], 1)[0]:
                    stream.feed(os.read(master, 65536))

        wait("Type a task")
        os.write(master, b"Greet people with hello\r")
        wait("SUCCESS", "/diff shows")
        os.write(master, b"/diff\r")
        wait("+    return")
        os.write(master, b"/cost\r")
        wait("The last task")
        lines = [line.rstrip() for line in screen.display]
        os.write(master, b"\x04")
        os.waitpid(pid, 0)
    text = without_names("\n".join(lines)).rstrip().removesuffix(">").rstrip()
    return ["$ headgate", *text.splitlines()]


def without_names(text: str) -> str:
    """The text without what is different each time: names of runs and objects, and how long things took."""
    text = re.sub(r"run_\d{8}_\d{6}_[0-9a-f]{6}", "run_20260101_120000_abc123", text)
    text = re.sub(r"index [0-9a-f]{40}\.\.[0-9a-f]{40}", "index 1a2b3c4..5d6e7f8", text)
    seconds = count()
    text = re.sub(r"^\[\d\d:\d\d\]", lambda _: f"[00:{next(seconds):02}]", text, flags=re.MULTILINE)
    return re.sub(r"(?<=in )\d\d:\d\d", lambda _: f"00:{next(seconds):02}", text)


def main() -> None:
    draw(record_run(REFUSED, "--boundary", BOUNDARY), "a refused edit", DOCS / "refused.svg")
    draw(record_run(STUCK), "a stuck task", DOCS / "stuck.svg")
    draw(record_terminal(), "headgate", DOCS / "terminal.svg")


if __name__ == "__main__":
    main()
