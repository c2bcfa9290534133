"""Verification with real commands."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import venv
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headgate.checks import Verification, Verifier, new_run_id
from headgate.core import Broken, Fail, Pass, VerifyStep
from headgate.reading import FailedTest
from patience import in_time


def verifier(tmp_path: Path, *steps: VerifyStep) -> Verifier:
    return Verifier(steps, tmp_path, tmp_path / "runs", {"PATH": os.environ["PATH"]})


async def verify(tmp_path: Path, *steps: VerifyStep) -> Verification:
    return await verifier(tmp_path, *steps).run("run_x")


def read_manifest(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "runs" / "run_x" / "manifest.json").read_text())


def step(name: str, command: str, timeout: float = 60) -> VerifyStep:
    return VerifyStep(name=name, command=command, timeout=timeout)


def test_run_ids_have_their_form() -> None:
    assert re.fullmatch(r"run_20261115_093000_[0-9a-f]{6}", new_run_id(1794735000.5))


async def test_all_steps_pass_and_leave_their_logs(tmp_path: Path) -> None:
    found = await verify(tmp_path, step("one", "echo first"), step("the/second one", "echo second >&2"))
    assert found.verdict == Pass()
    assert [(result.name, result.passed, result.exit_code) for result in found.steps] == [
        ("one", True, 0), ("the/second one", True, 0),
    ]  # fmt: skip
    folder = tmp_path / "runs" / "run_x"
    assert sorted(path.name for path in folder.iterdir()) == [
        "combined.log", "manifest.json", "step-01-one.log", "step-02-the-second-one.log",
    ]  # fmt: skip
    assert (folder / "step-02-the-second-one.log").read_text() == "second\n"
    assert (folder / "combined.log").read_text() == "$ echo first\nfirst\n\n$ echo second >&2\nsecond\n\n"
    manifest = read_manifest(tmp_path)
    assert (manifest["run_id"], manifest["passed"], manifest["skipped"]) == ("run_x", True, [])


async def test_the_first_failure_stops_it_and_its_tail_is_kept(tmp_path: Path) -> None:
    found = await verify(tmp_path, step("bad", "seq 1 500; exit 3"), step("never", "touch never"))
    assert found.verdict == Fail("verify_failed", 'step "bad" (seq 1 500; exit 3) failed with exit code 3')
    assert found.tail.splitlines() == [str(number) for number in range(301, 501)]
    assert not (tmp_path / "never").exists()
    manifest = read_manifest(tmp_path)
    assert (manifest["passed"], manifest["skipped"]) == (False, ["never"])
    assert len((tmp_path / "runs" / "run_x" / "step-01-bad.log").read_text().splitlines()) == 500


async def test_a_timeout_is_a_failure(tmp_path: Path) -> None:
    tried: list[float] = []

    async def attempt(seconds: float) -> Verification:
        tried.append(seconds)
        slow = step("slow", "echo begun; sleep 60", timeout=seconds)
        return await verifier(tmp_path, slow).run(f"run_{seconds}")

    found = await in_time(attempt, lambda found: bool(found.tail))
    reason = f'step "slow" (echo begun; sleep 60) took longer than {tried[-1]:g} s'
    assert found.verdict == Fail("verify_failed", reason)
    assert found.steps[0].timed_out
    assert found.tail == "begun"


async def test_tests_that_are_not_there_verify_nothing(tmp_path: Path) -> None:
    command = "printf 'Ran 0 tests in 0.000s\\n\\nOK\\n'"
    found = await verify(tmp_path, step("tests", command))
    assert found.verdict == Fail("verify_failed", f'step "tests" ({command}) ran no tests')
    assert not found.steps[0].passed


@pytest.mark.parametrize(
    ("command", "broken"),
    [
        ("no-such-program-anywhere --version", True),
        ("VAR=1 no-such-program-anywhere", True),
        ("cd . && no-such-program-anywhere", True),
        ("if true; then no-such-program-anywhere; fi", True),
        ("./missing.sh", False),
        ("/etc/passwd", True),  # it is there, and no program
        ("sh -c 'no-such-program-anywhere'", True),
        ("exit 127", False),
    ],
)
async def test_a_missing_program_is_the_environment_s_fault(
    tmp_path: Path, command: str, broken: bool
) -> None:
    found = await verify(tmp_path, step("x", command))
    assert isinstance(found.verdict, Broken if broken else Fail)


@pytest.mark.parametrize(
    ("command", "said", "broken"),
    [
        ("python3 -m pytest", "/usr/bin/python3: No module named pytest", True),
        ("python3 -m pytest", "/usr/bin/python3.12: No module named pytest", True),
        ("python3 -m pytest", "It began.\n/usr/bin/python3: No module named pytest", False),
        ("python3 -m unittest", "/usr/bin/python3: No module named pytest", False),
        ("python3 -m shop", "/usr/bin/python3: No module named shop", False),
    ],
)
async def test_a_runner_that_python_does_not_find(
    tmp_path: Path, command: str, said: str, broken: bool
) -> None:
    (tmp_path / "said").write_text(f"{said}\n")
    found = await verify(tmp_path, step("x", f"cat said; exit 1 # {command}"))
    assert isinstance(found.verdict, Broken if broken else Fail)
    if broken:
        assert found.verdict == Broken('verification step "x": the program pytest is not installed')


async def test_what_to_do_about_a_runner_that_python_does_not_have(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    environment = {"PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}"}
    found = await Verifier([step("x", "python3 -m pytest -q")], tmp_path, tmp_path / "runs", environment).run(
        "run_x"
    )
    assert found.verdict == Broken(
        'verification step "x" cannot run: python3 has no module pytest.'
        " Install it, or correct the command: python3 -m pytest -q"
    )


async def test_a_missing_directory_is_the_environment_s_fault(tmp_path: Path) -> None:
    gone = Verifier([step("x", "true")], tmp_path / "gone", tmp_path / "runs", {"PATH": os.environ["PATH"]})
    assert isinstance((await gone.run("run_x")).verdict, Broken)


FAILING = """\
printf '= short test summary info =\\nFAILED t.py::test_a - assert 1 == 2\\n1 failed in 0.1s\\n'; exit 1"""


BAR = (
    r"printf 'first\n'; for n in $(seq 300); do printf '%s %%\r' $n; done; printf '\e[31mred\e[0m\n'; exit 1"
)


@pytest.mark.parametrize(
    ("command", "failures", "tail"),
    [
        (FAILING, ("t.py::test_a",), "FAILED t.py::test_a - assert 1 == 2"),
        (f"({FAILING}) || true", (), ""),  # a step that passes has no failing tests
        (BAR, (), "red"),  # what a terminal shows in the end
        ("printf 'Ran 0 tests in 0.000s\\n\\nOK\\n'", (), ""),
    ],
)
async def test_what_is_kept_of_what_a_step_printed(
    tmp_path: Path, command: str, failures: tuple[str, ...], tail: str
) -> None:
    found = await verify(tmp_path, step("one", "true"), step("two", command))
    assert tuple(failure.name for failure in found.failures) == failures
    assert "".join(found.tail.splitlines()[1:2]) == tail


async def test_a_timeout_keeps_what_had_failed_by_then(tmp_path: Path) -> None:
    command = "echo 'test a::b ... FAILED'; sleep 60"
    found = await in_time(
        lambda seconds: verifier(tmp_path, step("slow", command, timeout=seconds)).run(f"run_{seconds}"),
        lambda found: bool(found.tail),
    )
    assert (found.steps[0].timed_out, found.failures) == (True, (FailedTest("a::b"),))


async def test_failures_are_named_from_where_the_command_ran(tmp_path: Path) -> None:
    (tmp_path / "test_sum.py").write_text(
        "import unittest\nclass Sums(unittest.TestCase):\n    def test_it(self): self.assertEqual(1, 2)\n"
    )
    command = f"{sys.executable} -B -m unittest"
    found = await verify(tmp_path, step("tests", command))
    expected = FailedTest("test_sum.Sums.test_it", "test_sum.py:3", "AssertionError: 1 != 2")
    assert found.failures == (expected,)


async def test_the_manifest_tells_the_whole_run(tmp_path: Path) -> None:
    ticks = count(1794735000)
    steps = [step("lint", "true"), step("tests", FAILING, timeout=30), step("build", "true")]
    environment = {"PATH": os.environ["PATH"]}
    clocked = Verifier(steps, tmp_path, tmp_path / "runs", environment, now=lambda: float(next(ticks)))
    found = await clocked.run("run_x")
    manifest = read_manifest(tmp_path)
    assert manifest == {
        "run_id": "run_x",
        "passed": False,
        "reason": f'step "tests" ({FAILING}) failed with exit code 1',
        "started": "2026-11-15T09:30:00.000Z",
        "finished": "2026-11-15T09:30:05.000Z",
        "seconds": 5.0,
        "steps": [
            {
                "name": "lint",
                "passed": True,
                "exit_code": 0,
                "timed_out": False,
                "seconds": found.steps[0].seconds,
                "tests": 0,
                "left_out": 0,
                "told_all": False,
                "command": "true",
                "timeout": 60.0,
                "log": "step-01-lint.log",
                "started": "2026-11-15T09:30:01.000Z",
                "finished": "2026-11-15T09:30:02.000Z",
                "failures": [],
            },
            {
                "name": "tests",
                "passed": False,
                "exit_code": 1,
                "timed_out": False,
                "seconds": found.steps[1].seconds,
                "tests": 1,
                "left_out": 0,
                "told_all": True,
                "command": FAILING,
                "timeout": 30.0,
                "log": "step-02-tests.log",
                "started": "2026-11-15T09:30:03.000Z",
                "finished": "2026-11-15T09:30:04.000Z",
                "failures": [{"name": "t.py::test_a", "location": "", "message": "assert 1 == 2"}],
            },
        ],
        "skipped": ["build"],
    }


async def test_logs_that_cannot_be_written_are_the_environment_s_fault(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    found = await verify(tmp_path, step("x", "true"))
    assert isinstance(found.verdict, Broken)
    assert "the logs of run_x cannot be written" in found.verdict.reason
    assert "runs is a link or a file" in found.verdict.reason
    (tmp_path / "runs").unlink()
    found = await verify(tmp_path, step("x", "rm -r runs; touch runs"))
    assert isinstance(found.verdict, Broken)


async def test_a_run_s_folder_that_the_run_removes_is_made_again(tmp_path: Path) -> None:
    found = await verify(tmp_path, step("x", "rm -r runs; echo gone"), step("y", "true"))
    assert found.verdict == Pass()
    folder = tmp_path / "runs" / "run_x"
    assert (folder / "step-01-x.log").read_text() == "gone\n"
    assert read_manifest(tmp_path)["passed"]


async def test_a_cancelled_run_has_no_manifest(tmp_path: Path) -> None:
    begun = asyncio.Event()
    steps = [step("one", "echo done"), step("two", "echo begun; sleep 60")]

    def hear(line: str) -> None:
        if line == "begun":
            begun.set()

    cancelled = Verifier(steps, tmp_path, tmp_path / "runs", {"PATH": os.environ["PATH"]}, hear)
    running = asyncio.create_task(cancelled.run("run_x"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    names = sorted(path.name for path in (tmp_path / "runs" / "run_x").iterdir())
    assert names == ["combined.log", "step-01-one.log", "step-02-two.log"]


KILLED = """
import asyncio, os
from pathlib import Path
from headgate.checks.verify import Verifier
from headgate.core.settings import VerifyStep

steps = [VerifyStep(name="one", command="echo done"), VerifyStep(name="two", command="echo begun; cat gate")]
here = Path.cwd()
hear = lambda line: print(line, flush=True)
asyncio.run(Verifier(steps, here, here / "runs", {"PATH": os.environ["PATH"]}, hear).run("run_x"))
"""


def test_a_killed_run_has_no_manifest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    with subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == [b"done\n", b"begun\n"]
        process.send_signal(signal.SIGKILL)
    (tmp_path / "gate").write_text("")  # lets the orphaned command end
    names = sorted(path.name for path in (tmp_path / "runs" / "run_x").iterdir())
    assert names == ["combined.log", "step-01-one.log", "step-02-two.log"]


async def test_without_steps_nothing_is_verified(tmp_path: Path) -> None:
    found = await verify(tmp_path)
    assert found == Verification(Broken("there are no verification steps"), ())
    assert not (tmp_path / "runs").exists()


WRAPPER = """\
Downloading https://services.gradle.org/distributions/gradle-8.7-bin.zip

Exception in thread "main" java.net.UnknownHostException: services.gradle.org
	at java.base/java.net.Socket.connect(Socket.java:633)
	at org.gradle.wrapper.Install.forceFetch(SourceFile:4)
"""


@pytest.mark.parametrize(
    ("output", "is_broken"),
    [
        (WRAPPER, True),
        (f"{WRAPPER}\n> Task :test FAILED\n\nBUILD FAILED in 3s\n", False),
        (f"LeapTest > it() STANDARD_OUT\n{WRAPPER}", False),
    ],
)
async def test_a_gradle_that_cannot_be_downloaded(tmp_path: Path, output: str, is_broken: bool) -> None:
    """Not so if Gradle ran: then code under test may have printed it."""
    (tmp_path / "said.txt").write_text(output)
    step = VerifyStep(name="tests", command="cat said.txt; exit 1", timeout=60)
    found = await Verifier([step], tmp_path, tmp_path / "runs").run("run_x")
    assert isinstance(found.verdict, Broken if is_broken else Fail)
    if is_broken:
        assert found.verdict.reason == 'verification step "tests": ./gradlew could not download Gradle'
