"""The filter for system calls, with real calls in a real bubblewrap."""

import asyncio
import os
import shutil
import struct
from pathlib import Path

import pytest

from headgate.process import NoSandbox, Sandbox, find_bubblewrap, run_command
from headgate.process.syscalls import syscall_filter

found = find_bubblewrap(os.environ.get("PATH"))
needs_filter = pytest.mark.skipif(
    isinstance(found, NoSandbox) or found.call_filter is None, reason=f"no filter here: {found}"
)
NUMBERS = {"x86_64": 0, "aarch64": 1}
COLUMN = NUMBERS.get(os.uname().machine, 0)
ALLOWED, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
KILLED = 0x80000000


def decide(machine: str, call: int, *arguments: int, seen: int | None = None) -> int:
    """What the kernel would do about a call, by running the program as the kernel does."""
    program = syscall_filter(machine)
    assert program is not None
    audit = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine] if seen is None else seen
    data = struct.pack("=IIQ6Q", call, audit, 0, *(*arguments, *[0] * (6 - len(arguments))))
    steps = list(struct.iter_unpack("=HBBI", program))
    position = held = 0
    while True:
        code, if_true, if_false, value = steps[position]
        position += 1
        if code == 0x20:
            (held,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            position += if_true if holds else if_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_both_machines_decide_the_same(machine: str) -> None:
    column = NUMBERS[machine]
    ioctl, socket, clone, unshare, openat, fchmodat, read = [
        numbers[column]
        for numbers in ((16, 29), (41, 198), (56, 220), (272, 97), (257, 56), (268, 53), (0, 63))
    ]
    assert decide(machine, read) == ALLOWED
    assert [decide(machine, socket, family) for family in (1, 2, 10, 16)] == [ALLOWED] * 4
    assert [decide(machine, socket, family) for family in (15, 17, 29, 31, 38, 40, 44)] == [EPERM] * 7
    assert decide(machine, ioctl, 0, 0x5412) == decide(machine, ioctl, 0, 1 << 32 | 0x5412) == EPERM
    assert decide(machine, ioctl, 0, 0x5413) == ALLOWED
    assert decide(machine, clone, 0x10000011) == decide(machine, unshare, 0x10000000) == EPERM
    assert decide(machine, clone, 0x11) == decide(machine, unshare, 0x400) == ALLOWED
    assert decide(machine, 435) == decide(machine, 437) == ENOSYS
    assert decide(machine, openat, 0, 0, 0o101, 0o4755) == EPERM
    assert decide(machine, openat, 0, 0, 0, 0o4755) == decide(machine, openat, 0, 0, 0o101, 0o755) == ALLOWED
    assert decide(machine, fchmodat, 0, 0, 0o4755) == EPERM
    assert decide(machine, fchmodat, 0, 0, 0o2775) == decide(machine, fchmodat, 0, 0, 0o1777) == ALLOWED


def test_other_ways_to_number_calls_are_closed() -> None:
    assert decide("x86_64", 0x40000000 | 41, 40) == ENOSYS
    assert decide("x86_64", 3, seen=0x40000003) == KILLED
    assert decide("aarch64", 3, seen=0x40000028) == KILLED
    assert syscall_filter("riscv64") is None


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    assert not isinstance(found, NoSandbox)
    repo = tmp_path / "home" / "repo"
    repo.mkdir(parents=True)
    return Sandbox(found, tmp_path / "home", tmp_path / "scratch", writable=(repo,))


def run(sandbox: Sandbox, command: str) -> tuple[int, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(sandbox.home)}
    repo = sandbox.home / "repo"
    done = asyncio.run(
        run_command(command, cwd=repo, env=env, timeout=60, max_output=10_000, sandbox=sandbox)
    )
    return done.exit_code, done.output.strip()


DENIED = {
    "add_key": (248, 217), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "open_tree": (428, 428), "mount": (165, 40), "keyctl": (250, 219),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "syslog": (103, 116),
}  # fmt: skip


@pytest.mark.parametrize("name", DENIED)
def test_a_call_that_is_denied(name: str) -> None:
    assert [decide(machine, DENIED[name][column]) for machine, column in NUMBERS.items()] == [EPERM, EPERM]


@needs_filter
def test_a_denied_call_in_the_sandbox(sandbox: Sandbox) -> None:
    code = f"c = ctypes.CDLL(None, use_errno=True); print(c.syscall({DENIED['keyctl'][COLUMN]}, 0, -3, 0), "
    assert run(sandbox, f'python3 -c "import ctypes; {code}ctypes.get_errno())"') == (0, "-1 1")


@needs_filter
@pytest.mark.parametrize("family", ["VSOCK", "PACKET", "ALG", "BLUETOOTH", "CAN"])
def test_sockets_around_the_network_namespace(sandbox: Sandbox, family: str) -> None:
    code, said = run(sandbox, f"python3 -c 'import socket; socket.socket(socket.AF_{family}, 5, 0)'")
    assert code == 1
    assert "PermissionError" in said or "has no attribute" in said


@needs_filter
@pytest.mark.parametrize(
    "command",
    [
        "cp /bin/sh x; chmod 4755 x",
        "python3 -c \"import os; os.close(os.open('x', os.O_CREAT | os.O_WRONLY, 0o6755))\"",
        "python3 -c \"import os; os.mknod('x', 0o106755)\"",
        "cp /bin/sh x; python3 -c \"import os; os.fchmod(os.open('x', 0), 0o4755)\"",
    ],
)
def test_no_program_runs_as_its_owner_for_others(sandbox: Sandbox, command: str) -> None:
    assert run(sandbox, command)[0] != 0
    left = sandbox.home / "repo" / "x"
    assert not left.exists() or left.stat().st_mode & 0o6000 == 0


TOOLS = {
    "python3": "python3 -c 'import threading, subprocess, multiprocessing as m; threading.Thread().start(); "
    'm.Pool(2).map(abs, [1]); subprocess.run(["true"], check=True); print(1)\' && python3 -m venv --help',
    "node": 'node -e \'require("fs").readFile("/etc/hosts", () => { require("child_process").execSync'
    '("true"); new (require("worker_threads").Worker)("1", {eval: true}); })\'',
    "git": "git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && git log",
    "make": "echo 'int main(){}' > a.c; printf 'a: a.c\\n\\tgcc -o a a.c\\n' > Makefile; make && ./a",
    "rg": "echo needle > f && rg needle .",
    "tar": "mkdir -p d && chmod 2775 d && tar cf a.tar d && rm -r d && tar xf a.tar && cp -a d e && ls e",
    "gdb": "gdb -batch -ex 'break main' -ex run /bin/true",
}


@needs_filter
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_still_work(sandbox: Sandbox, tool: str) -> None:
    if shutil.which(tool) is None or (tool == "make" and shutil.which("gcc") is None):
        pytest.skip(f"no {tool} here")
    code, said = run(sandbox, TOOLS[tool])
    assert code == 0, said
