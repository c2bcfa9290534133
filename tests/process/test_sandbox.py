"""The sandbox, with real commands in a real bubblewrap."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.process import (
    CommandLimits,
    NoSandbox,
    Sandbox,
    find_bubblewrap,
    pythons_of,
    run_command,
    toolchain_paths,
)

found = find_bubblewrap(os.environ.get("PATH"))
pytestmark = pytest.mark.skipif(isinstance(found, NoSandbox), reason=f"no sandbox here: {found}")


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    assert not isinstance(found, NoSandbox)
    repo, home = tmp_path / "home" / "repo", tmp_path / "home"
    for folder in (
        repo / ".git",
        repo / ".headgate",
        home / ".ssh",
        home / ".tool" / "bin",
        home / ".cache/pip",
    ):
        folder.mkdir(parents=True)
    (repo / "code.py").write_text("x = 1\n")
    (repo / "test_code.py").write_text("assert True\n")
    (repo / ".env").write_text("TOKEN=abc\n")
    (home / ".ssh" / "id").write_text("private\n")
    (home / ".cache/pip" / "wheel").write_text("cached\n")
    (home / ".tool" / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    return Sandbox(
        found,
        home,
        tmp_path / "scratch",
        writable=(repo,),
        read_only=(repo / ".git", repo / "test_code.py"),
        hidden=(repo / ".headgate", repo / ".env"),
        toolchain=lambda: (home / ".tool" / "bin",),
        caches=lambda: (home / ".cache/pip",),
    )


def run(sandbox: Sandbox, command: str) -> tuple[int, str]:
    repo = sandbox.home / "repo"
    env = {"PATH": os.environ["PATH"], "HOME": str(sandbox.home)}
    done = asyncio.run(
        run_command(command, cwd=repo, env=env, timeout=60, max_output=10_000, sandbox=sandbox)
    )
    return done.exit_code, done.output.strip()


def test_it_works_in_the_repository(sandbox: Sandbox) -> None:
    assert run(sandbox, "echo 'x = 2' > code.py && mkdir new && echo done") == (0, "done")
    assert (sandbox.home / "repo" / "code.py").read_text() == "x = 2\n"
    assert (sandbox.home / "repo" / "new").is_dir()


def test_exit_codes_and_signals_come_through(sandbox: Sandbox) -> None:
    assert run(sandbox, "exit 7")[0] == 7
    assert run(sandbox, "kill -TERM $$")[0] == 143


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/config",
        "exec 3>>/proc/sys/kernel/core_pattern",
        "echo x > test_code.py",
        "cat .env",
        "echo x > /etc/headgate-was-here",
        "echo x > ~/.tool/bin/tool",
        "echo x > ~/.cache/pip/wheel",
    ],
)
def test_what_it_refuses(sandbox: Sandbox, command: str) -> None:
    repo = sandbox.home / "repo"
    assert run(sandbox, command)[0] != 0
    assert (repo / "test_code.py").read_text() == "assert True\n"
    assert not Path("/etc/headgate-was-here").exists()
    assert (sandbox.home / ".cache/pip/wheel").read_text() == "cached\n"


def test_the_home_folder_is_private_and_tools_are_there(sandbox: Sandbox) -> None:
    assert run(sandbox, "ls -A ~")[1].split() == [".cache", ".tool", "repo"]
    assert run(sandbox, "sh ~/.tool/bin/tool")[1] == "tool"
    assert run(sandbox, "echo kept > ~/note; echo kept > /tmp/note")[0] == 0
    assert run(sandbox, "cat ~/note /tmp/note")[1].split() == ["kept", "kept"]
    assert not (sandbox.home / "note").exists()


def test_a_fresh_scratch_holds_nothing(sandbox: Sandbox) -> None:
    run(sandbox, "echo x > ~/note")
    with sandbox.with_fresh_scratch() as fresh:
        assert run(fresh, "test -e ~/note")[0] == 1
    assert not fresh.scratch.exists()


def test_a_stage_that_only_reads(sandbox: Sandbox) -> None:
    assert run(sandbox.without_writing(), "cat code.py")[0] == 0
    code, said = run(sandbox.without_writing(), "echo x > code.py")
    assert code != 0
    assert "Read-only file system" in said


def test_a_copy_can_be_changed_and_the_repository_cannot(sandbox: Sandbox, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    inside = sandbox.in_copy(copy)
    assert run(inside, f"echo x > {copy}/made && cat code.py")[0] == 0
    assert run(inside, "echo x > code.py")[0] != 0


def test_steps_may_fill_caches(sandbox: Sandbox) -> None:
    run(replace(sandbox, writes_caches=True), "echo more > ~/.cache/pip/wheel")
    assert (sandbox.home / ".cache/pip/wheel").read_text() == "more\n"


def test_limits(sandbox: Sandbox) -> None:
    limited = replace(sandbox, limits=CommandLimits(memory_mb=200, processes=500, file_mb=1))
    grow = "import sys; b = bytearray(10**9); print('grown')"
    code, said = run(limited, f'python3 -c "{grow}"')
    assert code != 0
    assert "MemoryError" in said
    assert run(limited, "head -c 3000000 /dev/zero > big; stat -c %s big")[1].endswith("1048576")
    assert run(limited, "ulimit -u")[1] == "500"


def test_what_programs_need_of_a_home_folder(tmp_path: Path) -> None:
    home = tmp_path
    for name in (".pyenv/shims", ".cargo/bin", "tools/bin", ".secret/bin", ".ssh", "py/bin"):
        (home / name).mkdir(parents=True)
    (home / "py/lib/python3.12").mkdir(parents=True)
    (home / "py/bin/python").write_text("")
    (home / "py/bin/python").chmod(0o755)
    link = home / "python"
    link.symlink_to(home / "py/bin/python")
    path = os.pathsep.join(str(home / name) for name in (".cargo/bin", "tools/bin", ".secret/bin"))
    expected = [".cargo/bin", ".pyenv", ".secret/bin", "py", "tools"]
    found_paths = toolchain_paths(home, {"PATH": path}, pythons_of([link]))
    assert [path.relative_to(home).as_posix() for path in found_paths] == expected


def test_why_there_is_none(tmp_path: Path) -> None:
    missing = find_bubblewrap(str(tmp_path))
    assert isinstance(missing, NoSandbox)
    assert missing.reason == "bubblewrap is not installed"
    broken = tmp_path / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    broken.chmod(0o755)
    refused = find_bubblewrap(str(broken.parent))
    assert isinstance(refused, NoSandbox)
    assert refused.reason == "bubblewrap does not work here (setting up uid map: Permission denied)"
    assert "user namespaces" in refused.advice


def test_no_program_of_a_repository_is_run(tmp_path: Path) -> None:
    planted = tmp_path / "repo" / ".venv" / "bin" / "bwrap"
    planted.parent.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    planted.write_text("#!/bin/sh\nexit 0\n")
    planted.chmod(0o755)
    assert find_bubblewrap(f"{planted.parent}{os.pathsep}{os.environ['PATH']}") == found


def test_a_cache_in_a_repository_that_is_a_link_opens_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    repo, copy = sandbox.home / "repo", tmp_path / "copy"
    copy.mkdir()
    (repo / "node_modules").mkdir()
    (repo / "node_modules" / ".cache").symlink_to(sandbox.home)
    assert sandbox.in_copy(copy).writable == (copy,)


def test_a_python_of_a_repository_that_is_a_link_to_a_key_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("private")
    link = tmp_path / "python"
    link.symlink_to(tmp_path / ".ssh" / "id_rsa")
    assert toolchain_paths(tmp_path, {}, pythons_of([link])) == ()


def test_what_commands_leave_in_their_private_folders_is_removed(sandbox: Sandbox) -> None:
    """Locked folders, and folders deeper than a path can say."""
    nest = "import os\\nfor _ in range(1500):\\n    os.mkdir('d' * 200); os.chdir('d' * 200)"
    with sandbox.with_fresh_scratch() as fresh:
        locked = "mkdir -p /tmp/a/b && chmod 000 /tmp/a"
        done = run(fresh, f"{locked}; cd ~ && python3 -c \"exec('''{nest}''')\" && chmod 000 /tmp")
        assert done[0] == 0, done
        assert run(fresh, "touch /tmp/x ~/x")[0] == 0
    assert not fresh.scratch.exists()


def test_other_users_cannot_enter_the_private_folders(sandbox: Sandbox) -> None:
    run(sandbox, "chmod 777 ~ /tmp; cp /bin/sh /tmp/sh; chmod 2755 /tmp/sh")
    assert sandbox.scratch.stat().st_mode & 0o777 == 0o700
