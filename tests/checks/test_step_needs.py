"""Whether what verification steps name is there, looked for where they run."""

import os
import shutil
import sys
import venv
from pathlib import Path

import pytest

from headgate.checks import Missing, find_missing
from headgate.core import VerifyStep
from headgate.process import NoSandbox, Sandbox, find_bubblewrap


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with programs in a folder of its own, which is all of the PATH."""
    (tmp_path / ".git").mkdir()
    for name in ("bin/tool", "bin/npm", "bin/make", "bin/pip", "sub/here", "sub/plain"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o644 if name == "sub/plain" else 0o755)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    return tmp_path


async def missing(place: Path, *commands: str, **environ: str) -> list[Missing]:
    steps = [VerifyStep(name=f"s{number}", command=command) for number, command in enumerate(commands, 1)]
    return await find_missing(steps, place, {"PATH": str(place / "bin"), **environ}, None)


@pytest.mark.parametrize(
    ("command", "name", "sure"),
    [
        ("tool -q", "", False),
        ("absent -q", "absent", True),
        ("VAR=1 OTHER='a b' tool", "", False),
        ("VAR=1 absent", "absent", True),
        ("env VAR=1 absent", "absent", True),
        ("/nowhere/absent", "/nowhere/absent", True),
        ("cd sub && ./here", "", False),
        ("cd sub && ./elsewhere", "./elsewhere", False),
        ("cd later && ./here", "", False),
        ("cd later && absent", "absent", True),
        ("./here", "./here", False),
        ("sub/here | tool", "", False),
        ("sub/plain", "sub/plain", False),
        ("tool | absent", "absent", True),
        ("tool && absent || true", "absent", False),
        ("tool || absent", "", False),
        ("set -e\ntool\nabsent\n", "absent", True),
        ("[ -f x ] && export A=1; test 1 = 1; tool", "", False),
        ("if tool; then absent; fi", "absent", False),
        ("test -x absent && absent", "absent", False),
        ('"$RUNNER" -q', "", False),
        ("cd $HOME && ./whatever", "", False),
        ("tool 'unclosed", "", False),
        ("/bin/sh -c 'tool && absent -q'", "absent", True),
        ("cd sub && /bin/sh -ec ./elsewhere", "./elsewhere", False),
        ("/bin/sh -c 'absent || true'; tool", "absent", False),
        ("/bin/sh -c 'python3 -m pytestt'", "python3 -m pytestt", True),
        ("/bin/sh -lc absent", "", False),
        ("/bin/sh tool absent", "", False),
        ("# a comment\ntool > out.txt 2>&1", "", False),
        ("(cd sub; ./here)", "", False),
        ("PATH=more:$PATH absent", "", False),
        (". sub/activate && absent", "", False),
        ("pip install absent && absent", "", False),
        ("python3 -m pytest -q", "", False),
        ("python3 -m pytestt -q", "python3 -m pytestt", True),
        ("python3 -W error -m pytestt.more", "python3 -m pytestt", True),
        ("python3 script.py -m pytestt", "", False),
        ("python3 -c 'import a' -m pytestt", "", False),
        ("PYTHONPATH=vendor python3 -m pytestt", "", False),
        ("python3 -m own", "", False),
        ("python3 -m below_src", "", False),
        ("cd sub && python3 -m below_sub", "", False),
    ],
)
async def test_what_a_command_names(place: Path, command: str, name: str, sure: bool) -> None:
    (place / "own.py").write_text("raise SystemExit('it was run')\n")
    (place / "src" / "below_src").mkdir(parents=True)
    (place / "sub" / "below_sub").mkdir()
    found = await missing(place, command)
    assert [(one.name, one.sure) for one in found] == ([(name, sure)] if name else [])


async def test_a_sentence_says_what_to_do(place: Path) -> None:
    found = await missing(place, "tool", "python3 -m pytestt -q")
    assert [one.sentence() for one in found] == [
        'verification step "s2" cannot run: python3 has no module pytestt.'
        " Install it, or correct the command: python3 -m pytestt -q"
    ]


async def test_what_comes_after_an_installation_is_not_judged(place: Path) -> None:
    assert [one.step.name for one in await missing(place, "absent", "pip install x", "later")] == ["s1"]


async def test_what_package_json_runs(place: Path) -> None:
    (place / "package.json").write_text('{"scripts": {"test": "jest --ci"}}')
    [found] = await missing(place, "npm test")
    assert (found.name, found.sure, found.behind) == ("jest", True, True)
    assert found.advice == "Install the packages of package.json, with `npm install` for instance"
    jest = place / "node_modules" / ".bin" / "jest"
    jest.parent.mkdir(parents=True)
    [found] = await missing(place, "npm test")
    assert not found.sure  # a task may add it to the packages, or correct the script
    jest.write_text("#!/bin/sh\n")
    jest.chmod(0o755)
    assert await missing(place, "npm test") == []


async def test_what_a_makefile_runs_is_for_a_task_to_correct(place: Path) -> None:
    (place / "Makefile").write_text("test:\n\t@absent -q\n")
    [found] = await missing(place, "make test")
    assert (found.name, found.sure, found.behind) == ("absent", False, True)


async def test_a_script_whose_interpreter_is_missing(place: Path) -> None:
    (place / "bin" / "tool").write_text("#!/nowhere/python -I\n")
    [found] = await missing(place, "tool")
    assert (found.why, found.sure) == ("tool needs /nowhere/python, which was not found", True)
    assert os.access(place / "bin" / "tool", os.X_OK)


async def test_an_environment_that_the_sandbox_hides_is_named_whole(place: Path, tmp_path: Path) -> None:
    bubblewrap, system = find_bubblewrap(os.environ.get("PATH")), shutil.which("python3", path="/usr/bin")
    if isinstance(bubblewrap, NoSandbox) or system is None:
        pytest.skip("needs bubblewrap, and a Python of the system")
    hidden = tmp_path / "hidden"
    venv.create(hidden, with_pip=False)
    [packages] = hidden.glob("lib/*/site-packages")
    (packages / "runner.py").touch()
    sandbox = Sandbox(
        bubblewrap, tmp_path / "home", tmp_path / "scratch", writable=(place,), hidden=(hidden,)
    )
    step = VerifyStep(name="tests", command="python3 -m runner -q")
    [found] = await find_missing([step], place, {"PATH": f"{hidden}/bin:/usr/bin:/bin"}, sandbox)
    assert found.why == f"the module runner is in {hidden}, which the sandbox hides"
    # Without the environment's Python, the module alone would not help.
    assert found.advice.startswith(f"Show it with `commands: {{read: [{hidden}")
    assert "site-packages" not in found.advice
    assert found.advice.endswith("headgate/config.yaml")
