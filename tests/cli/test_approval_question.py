"""The question before a command: what is shown is what runs, and only a clear answer allows it."""

import os
import pty
import select
import subprocess
import sys

import pytest

from headgate.cli.approval import describe
from headgate.core import Access

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
    process = subprocess.Popen([sys.executable, "-c", ASK], stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    said = b""
    sent = 0
    while process.poll() is None or select.select([outer], [], [], 0)[0]:
        if select.select([outer], [], [], 0.05)[0]:
            try:
                said += os.read(outer, 4096)
            except OSError:
                break
        if sent == 0 and b"ready" in said:
            os.write(outer, b"\na\n")
            sent = 1
        if sent == 1 and b"[N] no: " in said:
            os.write(outer, typed.encode())
            sent = 2
    process.wait()
    os.close(outer)
    return said.decode().rpartition("=")[2].strip()


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", "once"), ("Yes\n", "once"), ("abort\nn\n", "no"), ("try\nno\n", "no"), ("\n", "no")],
)
def test_only_a_clear_answer_given_to_the_question_counts(typed: str, answer: str) -> None:
    assert ask(typed) == answer
