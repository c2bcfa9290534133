"""The question before a command: what is shown is what runs, and only a clear answer allows it."""

import os
import pty
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.cli.approval import describe
from headgate.core import Access
from launcher import launched

ASK = """
from contextlib import nullcontext
from types import SimpleNamespace
from headgate.cli.approval import TerminalApproval
from headgate.core import Access
input("ready")
print("=" + TerminalApproval(SimpleNamespace(held=nullcontext))(Access("run", "ls")))
"""


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("rm a\u200bb", ["  rm a\\u200bb"]),
        ("echo \u202egnp.exe", ["  echo \\u202egnp.exe"]),
        ("true; \u3164", ["  true; \\u3164"]),
        ("echo a #\u2028evil\rx", ["  echo a #\\u2028evil\\rx"]),
        ("evil" + "\n" * 300 + "ls", ["  evil", "  ls"]),
        ("evil" + " " * 3000 + "# tests", ["  evil [3000 spaces] # tests"]),
        ("echo 日本", ["  echo 日本"]),
    ],
)
def test_a_command_is_shown_as_it_runs(command: str, shown: list[str]) -> None:
    assert describe(Access("run", command))[1:] == shown


def ask(typed: str) -> str:
    """What is answered when this is typed at the question, after a line was typed too early."""
    outer, inner = pty.openpty()
    said = b""
    sent = 0
    with launched(["-c", ASK], Path.cwd(), os.environ, (inner, inner, inner)):
        os.close(inner)
        with suppress(OSError):  # the terminal's other side is closed when the program has ended
            while piece := os.read(outer, 4096):
                said += piece
                if sent == 0 and b"ready" in said:
                    os.write(outer, b"\na\n")
                    sent = 1
                if sent == 1 and b"[N] no: " in said:
                    os.write(outer, typed.encode())
                    sent = 2
    os.close(outer)
    return said.decode().rpartition("=")[2].strip()


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", "once"), ("Yes\n", "once"), ("abort\nn\n", "no"), ("try\nno\n", "no"), ("\n", "no")],
)
def test_only_a_clear_answer_given_to_the_question_counts(typed: str, answer: str) -> None:
    assert ask(typed) == answer
