"""`headgate run --benchmark`: one line on standard output, and tests that stay as they are."""

import json
import signal
from pathlib import Path

import pytest
from command import headgate
from processes import GATED, call, ended, start, until

from headgate.cli.commands.start import benchmark_options
from headgate.core import Options

TRY = ("run", "--benchmark", "--try")
TEST = "def test_it():\n    assert False\n"
TAMPERING = r"""
- calls:
    - write_file: {path: tests/test_it.py, content: "def test_it():\n    pass\n"}
    - shell: {command: "echo 'def test_it(): pass' > tests/test_it.py; echo x > conftest.py"}
- text: Done.
"""
STUCK = """
flow:
  - {id: work, prompt: Do it., budget: {turns: 1, retries: 0, exhausted: fail}}
model: script:script.yaml
"""


STEPS = "verification: {steps: [{name: there, command: test -e new.txt}]}\n"


@pytest.mark.parametrize(
    ("steps", "said"), [("", "Not verified: no verification"), (STEPS, "Verified by run_")]
)
def test_finished(repo: Path, steps: str, said: str) -> None:
    with (repo / "agent.yaml").open("a") as file:
        file.write(steps)
    run = headgate(repo, *TRY, "2", "Write new.txt")
    assert (run.returncode, run.stdout) == (0, "Finished Try2\n"), run.stderr
    assert said in run.stderr
    assert "SUCCESS" in run.stderr


def test_failed(repo: Path) -> None:
    (repo / "agent.yaml").write_text(STUCK)
    (repo / "script.yaml").write_text("- calls: [{ls: {}}]\n")
    run = headgate(repo, *TRY, "1", "Write new.txt")
    said = 'Failed Try1: Stage "work" did not complete: its turns are used up.\n'
    assert (run.returncode, run.stdout) == (1, said)


def test_why_the_model_had_to_conclude(repo: Path) -> None:
    (repo / "agent.yaml").write_text(STUCK.replace("exhausted: fail", "exhausted: final_turn"))
    (repo / "script.yaml").write_text("- calls: [{ls: {}}]\n- text: ''\n- text: ''\n- text: I do not know.\n")
    run = headgate(repo, *TRY, "1", "Write new.txt")
    assert run.returncode == 1
    assert run.stdout.endswith(" [final turn: max_turns]\n")
    assert "Final turn forced: its turns are used up (max_turns)." in run.stderr
    for page in (headgate(repo, "report", "t1").stdout, (repo / ".headgate" / "stuck" / "t1.md").read_text()):
        assert "| final turns forced | its turns are used up (max_turns) |" in page
        assert "I do not know." in page


def test_a_broken_environment_is_a_failed_try(repo: Path) -> None:
    (repo / "script.yaml").write_text("- error: {kind: refused, message: 'No\\nsuch model.'}\n")
    run = headgate(repo, *TRY, "1", "Write new.txt")
    assert run.returncode == 1
    assert run.stdout.startswith("Failed Try1: The environment failed, not the work: ")
    assert run.stdout.count("\n") == 1


async def test_cancelled(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    process = await start(repo, *TRY, "1", "Wait")
    await until((repo / "started").exists)
    process.send_signal(signal.SIGINT)
    out, _ = await ended(process)
    assert (process.returncode, out) == (130, b"Failed Try1: cancelled\n")


async def test_cancelled_in_the_queue(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    first = await start(repo, "run", "Wait")
    await until((repo / "started").exists)
    second = await start(repo, *TRY, "1", "Wait too")
    await until(lambda: json.loads(headgate(repo, "tasks", "--json").stdout)[1:])
    headgate(repo, "cancel", "t2")
    out, _ = await ended(second)
    assert (second.returncode, out) == (130, b"Failed Try1: cancelled\n")
    (repo / "go").touch()
    await ended(first)


def test_run_by_another_process(repo: Path) -> None:
    assert headgate(repo, "submit", "--no-start", "Write new.txt").returncode == 0
    run = headgate(repo, *TRY, "3", "Write new.txt again")
    assert (run.returncode, run.stdout) == (0, "Finished Try3\n"), run.stderr


def test_the_model_s_last_text(repo: Path) -> None:
    with (repo / "agent.yaml").open("a") as file:
        file.write("benchmark_output_mode: model\n")
    said = r'- calls: [{stage_done: {summary: "Nothing to do.\n\nFinished Try1"}}]'
    (repo / "script.yaml").write_text(said)
    run = headgate(repo, *TRY, "1", "Write new.txt")
    assert run.stdout == "Nothing to do. Finished Try1\n"


def test_a_model_that_says_nothing_leaves_the_line_to_the_runtime(repo: Path) -> None:
    with (repo / "agent.yaml").open("a") as file:
        file.write("benchmark_output_mode: model\n")
    (repo / "script.yaml").write_text("- error: {kind: refused, message: No.}\n")
    run = headgate(repo, *TRY, "1", "Write new.txt")
    assert run.stdout.startswith("Failed Try1: ")


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        ({}, True),
        ({"HEADGATE_BLOCK_TEST_EDITS": "1"}, True),
        ({"HEADGATE_BLOCK_TEST_EDITS": "0"}, False),
        ({"LOCALCODE_BLOCK_TEST_EDITS": "0"}, False),
        ({"HEADGATE_BLOCK_TEST_EDITS": "1", "LOCALCODE_BLOCK_TEST_EDITS": "0"}, True),
    ],
)
def test_tests_are_protected(repo: Path, environment: dict[str, str], kept: bool) -> None:
    (repo / "tests").mkdir()
    (repo / "tests" / "test_it.py").write_text(TEST)
    (repo / "script.yaml").write_text(
        TAMPERING + "- calls: [{stage_done: {summary: So be it.}}]\n" * (not kept)
    )
    run = headgate(repo, *TRY, "1", "Fix the failing test.", **environment)
    assert (run.returncode, run.stdout) == (0, "Finished Try1\n"), run.stderr
    assert ((repo / "tests" / "test_it.py").read_text() == TEST) == kept
    assert (repo / "conftest.py").exists() != kept


def test_a_stuck_try_is_tried_again(repo: Path) -> None:
    (repo / "agent.yaml").write_text(STUCK)
    (repo / "script.yaml").write_text("- calls: [{ls: {}}]\n")
    headgate(repo, *TRY, "1", "Write new.txt")
    (repo / "script.yaml").write_text("- calls: [{stage_done: {summary: It is there.}}]\n")
    run = headgate(repo, *TRY, "2", "--resume", "t1")
    assert (run.returncode, run.stdout) == (0, "Finished Try2\n"), run.stderr


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--benchmark", "x"), "Use --benchmark and --try N together"),
        (("--try", "1", "x"), "Use --benchmark and --try N together"),
        (("--benchmark", "--try", "0", "x"), "0 is not in the range x>=1"),
        (("--benchmark", "--try", "one", "x"), "'one' is not a valid integer range"),
        (("--benchmark", "--try", "1", "--json", "x"), "leave out --json"),
        (("--benchmark", "--try", "1", "--dry-run", "x"), "leave out --dry-run"),
    ],
)
def test_what_does_not_go_together(repo: Path, args: tuple[str, ...], sentence: str) -> None:
    run = headgate(repo, "run", *args)
    assert (run.returncode, run.stdout) == (2, "")
    assert sentence in run.stderr


@pytest.mark.parametrize("no", ["0", "false", "No", " off "])
def test_the_ways_to_say_no(no: str) -> None:
    options = benchmark_options(Options(flow="flat"), 1, {"HEADGATE_BLOCK_TEST_EDITS": no})
    assert options == Options(flow="flat", benchmark=1, protect_tests="off")
    hidden = {"HEADGATE_BLOCK_TEST_EDITS": " ", "LOCALCODE_BLOCK_TEST_EDITS": no}
    assert benchmark_options(Options(), 1, hidden).protect_tests == "off"
    assert benchmark_options(Options(), 1, {"HEADGATE_BLOCK_TEST_EDITS": ""}).protect_tests == "all"
    assert benchmark_options(Options(), 4, {}) == Options(benchmark=4, protect_tests="all")


@pytest.mark.parametrize("again", [(), ("--benchmark", "--try", "1")])
async def test_an_interrupted_try_goes_on(repo: Path, again: tuple[str, ...]) -> None:
    (repo / "script.yaml").write_text(GATED)
    process = await start(repo, *TRY, "1", "Wait")
    await until((repo / "started").exists)
    process.kill()
    await process.wait()
    (repo / "go").touch()
    (repo / "script.yaml").write_text(f"{GATED}- text: Really.\n")  # goes on behind the first entry
    other = await call(repo, "run", "--resume", "t1", "--benchmark", "--try", "2")
    assert other[:2] == (2, "")
    code, out, err = await call(repo, "run", "--resume", "t1", *again)
    assert (code, out) == (0, "Finished Try1\n"), err
