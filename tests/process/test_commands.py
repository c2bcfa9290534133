"""Commands end when they should, take their children along, and never flood."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.process import CommandResult, CommandUnavailable, filtered_environment, run_command
from headgate.process.commands import Capture
from patience import in_time

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
LINUX = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


async def run(command: str | list[str], cwd: Path, **options: Any) -> CommandResult:
    settings: dict[str, Any] = {"env": ENV, "timeout": 30.0, "max_output": 10_000, **options}
    return await run_command(command, cwd=cwd, **settings)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that its parent has not noticed yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(path: Path, count: int) -> list[int]:
    """The numbers that the processes of a command have written down."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        found = [int(line) for line in path.read_text().split()] if path.exists() else []
        if len(found) == count:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{count} processes should have started")


async def test_output_and_exit_code(tmp_path: Path) -> None:
    result = await run("echo out; echo err >&2; pwd; exit 3", tmp_path)
    assert (result.exit_code, result.timed_out, result.cut) == (3, False, 0)
    assert result.output == f"out\nerr\n{tmp_path}\n"


async def test_words_run_without_a_shell(tmp_path: Path) -> None:
    result = await run([sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME"], tmp_path)
    assert result.output == "['a b', '$HOME']\n"


async def test_bash_runs_text(tmp_path: Path) -> None:
    if not Path("/bin/bash").exists():
        pytest.skip("needs bash")
    result = await run("[[ abc == a* ]] && echo ${BASH_VERSION:+bash}", tmp_path)
    assert result.output == "bash\n"


async def test_no_terminal_and_no_input(tmp_path: Path) -> None:
    result = await run(
        "cat; test -t 0 || test -t 1 || echo none; (: </dev/tty) 2>/dev/null || echo no tty", tmp_path
    )
    assert result.output == "none\nno tty\n"


async def test_killed_by_a_signal(tmp_path: Path) -> None:
    assert (await run("kill -9 $$", tmp_path)).exit_code == 128 + signal.SIGKILL


async def test_output_without_end_is_cut_while_it_comes(tmp_path: Path) -> None:
    result = await in_time(
        lambda seconds: run("yes", tmp_path, timeout=seconds, max_output=1000), lambda result: result.cut > 0
    )
    assert result.timed_out
    assert len(result.output) <= 1000
    assert result.cut > 0
    assert f"[... {result.cut:,} bytes of output cut here ...]" in result.output
    assert result.output.startswith("y\ny\n")


async def test_lines_are_heard_while_the_command_runs(tmp_path: Path) -> None:
    heard: list[str] = []

    def listen(line: str) -> None:
        heard.append(line)
        if line == "first":
            (tmp_path / "go").touch()

    result = await run(
        "echo first; until test -e go; do sleep 0.01; done; printf 'second\\r\\nodd \\377\\nlast'",
        tmp_path,
        on_line=listen,
    )
    assert heard == ["first", "second", "odd \ufffd", "last"]
    assert result.exit_code == 0


async def test_listener_that_fails_ends_the_command(tmp_path: Path) -> None:
    def listen(line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="boom"):
        await run(f"echo $$ > {tmp_path}/pid; echo boom; sleep 60", tmp_path, on_line=listen)
    assert not alive(pids(tmp_path / "pid", 1)[0])


async def test_log_has_everything(tmp_path: Path) -> None:
    log = tmp_path / "step.log"
    result = await run("seq 1 2000", tmp_path, log=log.open("wb"), max_output=500)
    assert log.read_text() == "".join(f"{number}\n" for number in range(1, 2001))
    assert len(result.output) <= 500
    assert result.output.startswith("1\n2\n")
    assert result.output.endswith("1999\n2000\n")


async def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(CommandUnavailable, match="There is no directory"):
        await run("true", tmp_path / "missing")
    with pytest.raises(CommandUnavailable, match="There is no program no-such-program"):
        await run(["no-such-program"], tmp_path)
    with pytest.raises(CommandUnavailable, match="NUL"):
        await run("echo \0", tmp_path)
    with pytest.raises(CommandUnavailable, match="too long"):
        await run("true " + "x" * 3_000_000, tmp_path)
    (tmp_path / "plain").write_text("x")
    with pytest.raises(CommandUnavailable, match="permission denied"):
        await run([str(tmp_path / "plain")], tmp_path)


@LINUX
class TestChildren:
    async def test_background_children_do_not_hold_the_call_and_die_with_it(self, tmp_path: Path) -> None:
        note = tmp_path / "pids"
        result = await run(
            f"sleep 600 & echo $! >> {note}; sleep 600 & echo $! >> {note}; echo done", tmp_path
        )
        assert (result.exit_code, result.timed_out, result.output) == (0, False, "done\n")
        assert [alive(pid) for pid in pids(note, 2)] == [False, False]

    async def test_children_that_leave_the_group_die_too(self, tmp_path: Path) -> None:
        note = tmp_path / "pids"
        daemon = (
            "import os, sys, time\n"
            "if os.fork(): os._exit(0)\n"
            "os.setsid()\n"
            "if os.fork(): os._exit(0)\n"
            f"open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
            "time.sleep(600)\n"
        )
        (tmp_path / "daemon.py").write_text(daemon)
        result = await run(
            f"{sys.executable} daemon.py; setsid sh -c 'echo $$ >> {note}; exec sleep 600' &"
            f" until test $(cat {note} | wc -l) = 2; do sleep 0.02; done; echo up",
            tmp_path,
        )
        assert result.output.endswith("up\n")
        assert [alive(pid) for pid in pids(note, 2)] == [False, False]

    async def test_children_that_ignore_being_asked_are_killed(self, tmp_path: Path) -> None:
        note = tmp_path / "pids"
        command = (
            f"trap '' TERM; echo $$ >> {note}; (trap '' TERM; echo $BASHPID >> {note}; sleep 600; sleep 600)"
            f" & until test $(cat {note} | wc -l) = 2; do sleep 0.01; done; echo up; wait; sleep 600"
        )

        async def attempt(seconds: float) -> CommandResult:
            note.write_text("")
            return await run(command, tmp_path, timeout=seconds)

        result = await in_time(attempt, lambda result: "up" in result.output)
        assert result.timed_out
        assert [alive(pid) for pid in pids(note, 2)] == [False, False]

    async def test_timeout_lets_a_command_clean_up(self, tmp_path: Path) -> None:
        command = "trap 'echo cleaned; exit 7' TERM; echo up; while :; do sleep 0.01; done"
        result = await in_time(
            lambda seconds: run(command, tmp_path, timeout=seconds), lambda result: "up" in result.output
        )
        assert result.timed_out
        assert result.output.endswith("cleaned\n")

    async def test_cancellation_kills_and_goes_on(self, tmp_path: Path) -> None:
        note = tmp_path / "pids"
        command = f"echo $$ >> {note}; setsid sh -c 'echo $$ >> {note}; exec sleep 600' & sleep 600"
        task = asyncio.create_task(run(command, tmp_path))
        started = await asyncio.to_thread(pids, note, 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [alive(pid) for pid in started] == [False, False]

    async def test_other_commands_are_left_alone(self, tmp_path: Path) -> None:
        note = tmp_path / "pids"
        other = asyncio.create_task(run(f"echo $$ > {note}; sleep 600", tmp_path))
        (pid,) = await asyncio.to_thread(pids, note, 1)
        await run("sleep 600 & true", tmp_path)
        assert alive(pid)
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert not alive(pid)

    async def test_no_descriptor_is_left_open(self, tmp_path: Path) -> None:
        await run("true", tmp_path)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for command in ("true", "sleep 600 & true", "exit 3"):
            await run(command, tmp_path, log=(tmp_path / "log").open("wb"))
        with pytest.raises(CommandUnavailable):
            await run(["no-such-program"], tmp_path)
        await asyncio.sleep(0)
        assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_many_at_once(tmp_path: Path) -> None:
    results = await asyncio.gather(*(run(f"echo {number}", tmp_path) for number in range(20)))
    assert [result.output for result in results] == [f"{number}\n" for number in range(20)]


@given(st.lists(st.binary(max_size=300), max_size=12), st.integers(0, 600))
def test_capture_never_exceeds_its_limit(chunks: list[bytes], limit: int) -> None:
    lines: list[str] = []
    with Capture(limit, lines.append) as capture:
        for chunk in chunks:
            capture.feed(chunk)
    whole = b"".join(chunks)
    assert len(capture.text) <= limit
    if len(whole) <= limit:
        assert (capture.text, capture.cut) == (whole.decode(errors="replace"), 0)
    expected = [line.decode(errors="replace").removesuffix("\r") for line in whole.split(b"\n")]
    assert lines == (expected if whole.rpartition(b"\n")[2] else expected[:-1])


def test_environment_without_secrets() -> None:
    kept = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LANG": "C",
        "LC_ALL": "C",
        "VIRTUAL_ENV": "/venv",
        "PWD": "/repo",
        "OLDPWD": "/",
        "TOKENIZERS_PARALLELISM": "false",
        "KEYBOARD": "us",
        "AUTHOR": "me",
        "COMPASS": "north",
        "HTTPS_PROXY": "http://proxy:3128",
        "_HEADGATE_COMMAND_1": "1",
    }
    dropped = (
        "OPENAI_API_KEY ANTHROPIC_API_KEY HEADGATE_API_KEY HEADGATE_MODEL GITHUB_TOKEN NPM_TOKEN TOKEN"
        " AWS_ACCESS_KEY_ID AWS_PROFILE MY_SECRET SECRET_KEY_BASE DB_PASSWORD PGPASSWORD MYSQL_PWD DB_PASS"
        " GOOGLE_APPLICATION_CREDENTIALS SSH_AUTH_SOCK SSH_ASKPASS SENTRY_DSN api_key STRIPE_KEY NPM__AUTH"
    )
    environ = kept | dict.fromkeys(dropped.split(), "value")
    environ |= {
        "DATABASE_URL": "postgres://me:hunter22@db/x",
        "HARMLESS": "ghp_0123456789",
        "TERM": "xterm",
        "PAGER": "less",
    }
    assert filtered_environment(environ) == kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "PAGER": "cat",
        "TERM": "dumb",
    }
