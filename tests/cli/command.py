"""The `headgate` command as a process, away from the user's own configuration."""

import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

from launcher import launched, run_headgate

SCRIPT = """
- calls: [{write_file: {path: new.txt, content: "hello\\n"}}]
- text: Wrote new.txt.
"""


def headgate(repo: Path, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return run_headgate(args, repo, environment(repo, **env), stdin)


def on_terminal(repo: Path, *args: str, typed: str | None = None, **env: str) -> tuple[int | None, str]:
    """The exit code of a command whose output is a terminal, and what it showed.

    Its input is that terminal, too, if something was typed there.
    """
    ours, theirs = pty.openpty()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    streams = (nowhere if typed is None else theirs, theirs, theirs)
    with launched(["-m", "headgate", *args], repo, environment(repo, **env), streams) as process:
        os.close(theirs)
        os.close(nowhere)
        os.write(ours, (typed or "").encode())
        shown = b""
        with suppress(OSError):  # the terminal's other side is closed when the command has ended
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n")  # the terminal itself adds the \r


def environment(repo: Path, **env: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    user_file = repo.parent / "config" / "headgate" / "config.yaml"
    if not user_file.exists():  # these tests are about what holds without a sandbox
        user_file.parent.mkdir(parents=True, exist_ok=True)
        user_file.write_text("sandbox: off\napprovals: never\n")
    own = {"HOME": str(repo.parent), "XDG_CONFIG_HOME": str(repo.parent / "config"), "HEADGATE_SERVERS": ""}
    return {**kept, **own, **env}
