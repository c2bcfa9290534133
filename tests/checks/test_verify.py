"""Verification with real commands."""

import json
import os
import re
from pathlib import Path

import pytest

from headgate.checks.verify import Verifier, new_run_id
from headgate.core.rules import Broken, Fail, Pass
from headgate.core.settings import VerifyStep


def verifier(tmp_path: Path, *steps: VerifyStep) -> Verifier:
    return Verifier(steps, tmp_path, tmp_path / "runs", {"PATH": os.environ["PATH"]})


def step(name: str, command: str, timeout: float = 60) -> VerifyStep:
    return VerifyStep(name=name, command=command, timeout=timeout)


def test_run_ids_have_their_form() -> None:
    assert re.fullmatch(r"run_20261115_093000_[0-9a-f]{6}", new_run_id(1794735000.5))


async def test_all_steps_pass_and_leave_their_logs(tmp_path: Path) -> None:
    found = await verifier(
        tmp_path, step("one", "echo first"), step("the/second one", "echo second >&2")
    ).run("run_x")
    assert found.verdict == Pass()
    assert [(result.name, result.passed, result.exit_code) for result in found.steps] == [
        ("one", True, 0),
        ("the/second one", True, 0),
    ]
    folder = tmp_path / "runs" / "run_x"
    assert sorted(path.name for path in folder.iterdir()) == [
        "combined.log",
        "manifest.json",
        "step-01-one.log",
        "step-02-the-second-one.log",
    ]
    assert (folder / "step-02-the-second-one.log").read_text() == "second\n"
    assert (folder / "combined.log").read_text() == "$ echo first\nfirst\n\n$ echo second >&2\nsecond\n\n"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["run_id"], manifest["passed"], manifest["skipped"]) == ("run_x", True, [])


async def test_the_first_failure_stops_it_and_its_tail_is_kept(tmp_path: Path) -> None:
    found = await verifier(tmp_path, step("bad", "seq 1 500; exit 3"), step("never", "touch never")).run(
        "run_x"
    )
    assert found.verdict == Fail("verify_failed", 'step "bad" (seq 1 500; exit 3) failed with exit code 3')
    assert found.tail.splitlines() == [str(number) for number in range(301, 501)]
    assert not (tmp_path / "never").exists()
    manifest = json.loads((tmp_path / "runs" / "run_x" / "manifest.json").read_text())
    assert (manifest["passed"], manifest["skipped"]) == (False, ["never"])
    assert len((tmp_path / "runs" / "run_x" / "step-01-bad.log").read_text().splitlines()) == 500


async def test_a_timeout_is_a_failure(tmp_path: Path) -> None:
    found = await verifier(tmp_path, step("slow", "echo begun; sleep 60", timeout=0.3)).run("run_x")
    assert found.verdict == Fail("verify_failed", 'step "slow" (echo begun; sleep 60) took longer than 0.3 s')
    assert found.steps[0].timed_out
    assert found.tail == "begun"


async def test_tests_that_are_not_there_verify_nothing(tmp_path: Path) -> None:
    command = "printf 'Ran 0 tests in 0.000s\\n\\nOK\\n'"
    found = await verifier(tmp_path, step("tests", command)).run("run_x")
    assert found.verdict == Fail("verify_failed", f'step "tests" ({command}) ran no test at all')
    assert not found.steps[0].passed


@pytest.mark.parametrize(
    ("command", "broken"),
    [
        ("no-such-program-anywhere --version", True),
        ("VAR=1 no-such-program-anywhere", True),
        ("cd . && no-such-program-anywhere", True),
        ("if true; then no-such-program-anywhere; fi", True),
        ("./missing.sh", False),
        ("sh -c 'no-such-program-anywhere'", True),
        ("exit 127", False),
    ],
)
async def test_a_missing_program_is_the_environment_s_fault(
    tmp_path: Path, command: str, broken: bool
) -> None:
    found = await verifier(tmp_path, step("x", command)).run("run_x")
    assert isinstance(found.verdict, Broken if broken else Fail)


async def test_a_missing_directory_is_the_environment_s_fault(tmp_path: Path) -> None:
    gone = Verifier([step("x", "true")], tmp_path / "gone", tmp_path / "runs", {"PATH": os.environ["PATH"]})
    assert isinstance((await gone.run("run_x")).verdict, Broken)
