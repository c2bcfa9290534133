"""The shell tool, with real commands."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import ToolArgsInvalid, ToolDenied, ToolFailed
from headgate.guard import ProtectedTree, Rule, SecretFiles, SecretScan
from headgate.process import Bubblewrap, Sandbox, filtered_environment
from headgate.tools import Outcome, ToolContext, shell, shell_in
from headgate.tools.commands import MOST_READ_ONLY
from headgate.tree import DiskWorkspace, Snapshots, git
from patience import in_time


class Runner:
    """Runs the tool in a directory, and keeps what it hands out."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.saved: list[str] = []
        self.heard: list[str] = []
        self.up = asyncio.Event()
        self.context = ToolContext(
            DiskWorkspace(root, [SecretFiles(root=root)]),
            self.save,
            environment=filtered_environment(os.environ),
            on_output=self.hear,
            **settings,
        )

    def hear(self, line: str) -> None:
        self.heard.append(line)
        self.up.set()

    def save(self, text: str) -> str:
        self.saved.append(text)
        return f".headgate/outputs/{len(self.saved)}.txt"

    async def __call__(self, command: str, **arguments: Any) -> str:
        answer = shell.function(self.context, shell.parse({"command": command, **arguments}))
        assert not isinstance(answer, Outcome)
        outcome = await answer
        assert len(outcome.text) <= self.context.result_chars
        return outcome.text


def test_what_it_is() -> None:
    assert (shell.name, shell.spec.category, shell.usage(), shell.is_async) == (
        "shell",
        "run",
        "command, timeout?",
        True,
    )


async def test_output_and_exit_code(tmp_path: Path) -> None:
    run = Runner(tmp_path)
    assert await run("echo hi; echo oops >&2") == "hi\noops\nexit code 0"
    assert await run("exit 3") == "(no output)\nexit code 3"
    assert await run("pwd") == f"{tmp_path}\nexit code 0"
    assert await run("no-such-program-here 2>/dev/null") == "(no output)\nexit code 127"
    assert run.heard == ["hi", "oops", str(tmp_path)]


async def test_colours_and_progress_are_left_out(tmp_path: Path) -> None:
    assert (
        await Runner(tmp_path)(r"printf '\033[31mred\033[0m\n10%%\r100%%\n\377'")
        == "red\n100%\n\ufffd\nexit code 0"
    )


async def test_long_output_is_saved(tmp_path: Path) -> None:
    run = Runner(tmp_path, result_chars=1000)
    text = await run("seq 1 3000; exit 1")
    assert run.saved == ["\n".join(str(number) for number in range(1, 3001))]
    assert ".headgate/outputs/1.txt" in text
    assert text.startswith("1\n2\n")
    assert text.endswith("2999\n3000\nexit code 1")


async def test_timeout(tmp_path: Path) -> None:
    tried: list[float] = []

    async def attempt(seconds: float) -> str:
        tried.append(seconds)
        return await Runner(tmp_path)("echo before; sleep 60", timeout=seconds)

    text = await in_time(attempt, lambda text: "before" in text)
    killed = f"timed out after {tried[-1]:g} s; the command and its children were killed"
    assert text == f"before\n{killed}"
    text = await Runner(tmp_path, shell_timeout=0.3)("sleep 60")
    assert text == "(no output)\ntimed out after 0.3 s; the command and its children were killed"


async def test_cancellation(tmp_path: Path) -> None:
    run = Runner(tmp_path)
    task = asyncio.create_task(run("echo up; sleep 60"))
    await run.up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class TestProtected:
    """`kept/` is not to be changed."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Runner:
        root = tmp_path / "repo"
        (root / "kept").mkdir(parents=True)
        for name in ("a.txt", "b.txt"):
            (root / "kept" / name).write_text("old\n")
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        rule = Rule("kept", "it is out of bounds for this task", lambda path: path.startswith("kept/"))
        protected = ProtectedTree(Snapshots(root), [rule], root / ".git/headgate/protected/t1")
        return Runner(root, protected=protected, result_chars=1500)

    def kept(self, run: Runner) -> dict[str, str]:
        folder = run.context.workspace.root / "kept"
        return {path.name: path.read_text() for path in sorted(folder.iterdir())}

    async def test_the_model_is_told(self, run: Runner) -> None:
        assert await run(
            "echo x > kept/a.txt; rm kept/b.txt; echo y > kept/c.txt; echo z > free; exit 4"
        ) == (
            "(no output)\nexit code 4\n"
            "Restored: kept/a.txt (it is out of bounds for this task; the command had changed it).\n"
            "Restored: kept/b.txt (it is out of bounds for this task; the command had deleted it).\n"
            "Removed: kept/c.txt (it is out of bounds for this task; the command had created it)."
        )
        assert self.kept(run) == {"a.txt": "old\n", "b.txt": "old\n"}
        assert await run("cat free kept/a.txt") == "z\nold\nexit code 0"

    async def test_many_paths_fit(self, run: Runner) -> None:
        text = await run("seq 1 5000; touch kept/{1..300}")
        assert len(text) <= 1500
        assert text.endswith("more paths like these.")
        assert "Removed: kept/1 (" in text
        assert self.kept(run) == {"a.txt": "old\n", "b.txt": "old\n"}

    async def test_cancellation(self, run: Runner) -> None:
        task = asyncio.create_task(run("rm kept/a.txt; echo up; sleep 60"))
        await run.up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert self.kept(run) == {"a.txt": "old\n", "b.txt": "old\n"}


async def test_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "packages" / "api").mkdir(parents=True)
    run = Runner(tmp_path, directory=tmp_path / "packages" / "api")
    assert await run("pwd") == f"{tmp_path}/packages/api\nexit code 0"
    shown = shell_in("packages/api")
    assert shown.spec.parameters["properties"]["command"] == {
        "description": "A bash command, run in the directory packages/api",
        "type": "string",
    }
    assert (shown.name, shown.usage(), shown.function) == (shell.name, shell.usage(), shell.function)


async def test_refusals(tmp_path: Path) -> None:
    run = Runner(tmp_path)
    with pytest.raises(ToolArgsInvalid, match="empty"):
        await run("  ")
    with pytest.raises(ToolArgsInvalid, match="more than 0"):
        await run("true", timeout=0)
    with pytest.raises(ToolDenied, match=r"names \.env"):
        await run("cat .env")
    with pytest.raises(ToolDenied, match=r"change \.git"):
        await run("rm -rf .git")
    with pytest.raises(ToolFailed, match="NUL"):
        await run("echo \0")


async def test_environment_has_no_secrets(tmp_path: Path) -> None:
    run = Runner(tmp_path)
    names = [line.partition("=")[0] for line in (await run("env")).splitlines()]
    assert not [name for name in names if name.startswith("HEADGATE") or name.endswith("API_KEY")]
    assert (await run("echo $PAGER $TERM $GIT_TERMINAL_PROMPT")).startswith("cat dumb 0\n")


async def test_more_secrets_than_can_be_hidden(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / f"{number}.pem").touch()
    sandbox = Sandbox(Bubblewrap("/nowhere/bwrap", False), tmp_path, tmp_path)
    with pytest.raises(ToolFailed, match="1001 files may contain secrets"):
        await Runner(tmp_path, sandbox=sandbox, secrets=SecretScan(tmp_path))("true")


async def test_of_many_protected_files_those_that_decide_are_mounted(tmp_path: Path) -> None:
    repo, program = tmp_path / "repo", tmp_path / "bwrap"
    repo.mkdir()
    for number in range(MOST_READ_ONLY + 5):
        (repo / f"{number}.txt").touch()
    (repo / "conftest.py").write_text("a file that is larger than the others\n")
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\" | grep -A 1 -e --ro-bind-try | grep '/repo/'\n")
    program.chmod(0o755)
    git(repo, "init", "-q")
    rules = [Rule("all", "it is protected", lambda path: True)]
    protected = ProtectedTree(
        Snapshots(repo),
        rules,
        repo / ".git/headgate/protected/t1",
        decides=lambda path, change: path[0] == "c",
    )
    sandbox = Sandbox(Bubblewrap(str(program), False), tmp_path / "home", tmp_path, writable=(repo,))
    lines = (await Runner(repo, sandbox=sandbox, protected=protected, result_chars=100_000)("true")).split()
    mounted = {line for line in lines if line.startswith(f"{repo}/")}
    assert len(mounted) == MOST_READ_ONLY
    assert f"{repo}/conftest.py" in mounted
