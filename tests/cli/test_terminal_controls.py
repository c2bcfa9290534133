"""No control character that a model or a file contains reaches a terminal; a pipe gets every byte."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command import environment, headgate, on_terminal

from headgate.control_characters import escape_controls

EVIL = "\x1b[2A\x1b[2KVerified by\x1b]52;c;ZXZpbA==\x07 \x9b31m \x85 \u202egnp\u2066 \rover\x08\x7f"
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NAME = "odd\u202e\x9b.txt"


def shown_on_terminal(repo: Path, *args: str) -> str:
    return on_terminal(repo, *args, typed="", TERM="dumb", LC_ALL="C.UTF-8")[1]


@pytest.fixture
def evil_repo(repo: Path) -> Path:
    calls = [
        {"write_file": {"path": "evil.txt", "content": f"one {EVIL}\ntwo\r\n"}},
        {"write_file": {"path": NAME, "content": "x\n"}},
        {"shell": {"command": f"printf 'text \\033[1m' # {EVIL}"}},
    ]
    done = {"stage_done": {"stage": "work", "summary": f"All is well {EVIL}"}}
    script = {"replies": [{"text": EVIL, "reasoning": EVIL, "calls": calls}, {"calls": [done]}]}
    (repo / "script.yaml").write_text(yaml.safe_dump(script))
    (repo / "agent.yaml").write_text("model: script:script.yaml\ntask_flow_mode: flat\n")
    own = repo.parent / "config" / "headgate"
    own.mkdir(parents=True)
    (own / "config.yaml").write_text("sandbox: off\napprovals: never\n")
    return repo


def test_no_command_lets_a_control_character_through(evil_repo: Path) -> None:
    shown = {"run": shown_on_terminal(evil_repo, "run", f"Do it {EVIL}")}
    for args in (
        ["tasks"],
        ["tasks", "--json"],
        ["show"],
        ["show", "--detail"],
        ["show", "--json"],
        ["report"],
        ["report", "--json"],
        ["diff"],
        ["watch", "--detail"],
        ["watch", "--json"],
        ["doctor"],
        ["show", f"t9{EVIL}"],
        [f"nonsense{EVIL}"],
        ["flows", "show", f"no{EVIL}"],
    ):
        shown[" ".join(args)] = shown_on_terminal(evil_repo, *args)
    assert all(shown.values())
    assert {name: found for name, text in shown.items() if (found := STEERING.findall(text))} == {}
    assert "\\x1b[2A\\x1b[2KVerified by" in shown["diff"]
    assert "two\\r\n" in shown["diff"]


def test_a_pipe_gets_the_bytes_as_they_are(evil_repo: Path) -> None:
    assert headgate(evil_repo, "run", "Do it").returncode == 0
    diff = subprocess.run(
        [sys.executable, "-m", "headgate", "diff"],
        cwd=evil_repo,
        env=environment(evil_repo, LC_ALL="C.UTF-8"),
        capture_output=True,
        check=True,
    )
    assert EVIL.encode() in diff.stdout


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Tab\there, línea, 中文, 👩\u200d💻\n"
    assert escape_controls(text) == text
    assert escape_controls("\x1b\r\x9b\u202e") == "\\x1b\\r\\x9b\\u202e"
