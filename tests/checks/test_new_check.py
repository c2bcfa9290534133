"""A new check is one `Check` in the registry: nothing else has to know it."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.checks import CHECKS, Check, Facts, registry_of
from headgate.config import load_config
from headgate.core import Broken, CheckFinished, CheckSpec, Constraints, Fail, Pass, Verdict
from headgate.engine import Engine, FlowParts
from headgate.errors import ConfigError
from headgate.log import Report

FLOW = """
stages:
  - id: work
    prompt: Do the work.
    checks: [{marks: 2}, code_changed]
    budget: {turns: 3, retries: 0}
checks: [no_print, verify]
"""
CALC = "def add(a, b):\n    return a - b\n"


async def count_marks(facts: Facts, wanted: int) -> Verdict:
    _, after = (await facts.diff()).versions.get("calc.py", ("", ""))
    found = after.count("# mark")
    if found >= wanted:
        return Pass()
    return Fail("marks", f"mark {wanted} lines of calc.py first ({found} so far)")


async def find_print(facts: Facts, argument: int) -> Verdict:
    added = [line for line in (await facts.diff()).text.splitlines() if line.startswith("+")]
    return Fail("no_print", "calc.py prints: use a logger") if "print(" in "".join(added) else Pass()


async def break_down(facts: Facts, argument: int) -> Verdict:
    return Broken("the disk is gone")


MARKS = Check(
    CheckSpec(
        "marks",
        "So many lines of calc.py are marked.",
        argument="count",
        needs=("edit_file",),
        clause="too few lines were marked",
        said_done="without marking lines",
    ),
    count_marks,
)
NO_PRINT = Check(CheckSpec("no_print", "The diff adds no `print`.", place="review"), find_print)
MORE = {**CHECKS, **registry_of(MARKS, NO_PRINT)}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "calc.py").write_text(CALC)
    (repo / "flow.yaml").write_text(FLOW)
    (repo / "agent.yaml").write_text(
        "model: script:../script.yaml\nflow: flow.yaml\n"
        "verification: {steps: [{name: tests, command: 'grep -q \"a + b\" calc.py'}]}\n"
    )
    return repo


def open_engine(repo: Path, checks: Mapping[str, Check] = MORE) -> Engine:
    loaded = load_config(repo, environ={}, flags={}, user_file=repo / "none.yaml")
    return Engine.open(repo, loaded, parts=FlowParts(checks=checks))


async def carry_out(
    repo: Path, script: str, checks: Mapping[str, Check] = MORE
) -> tuple[Report, list[CheckFinished]]:
    """Runs a task with a script that also says what the model has to be told."""
    (repo.parent / "script.yaml").write_text(script)
    engine = open_engine(repo, checks)
    task = engine.submit("add in calc.py has to add", Constraints())
    report = await engine.run(task)
    bodies = [event.body for event in engine.store.events(task.id)]
    engine.store.close()
    return report, [body for body in bodies if isinstance(body, CheckFinished)]


def told(finished: list[CheckFinished]) -> list[str]:
    return [f"{each.check} {each.verdict}" for each in finished]


UNTIL_THE_REVIEW = """
- calls:
    - edit_file: {path: calc.py, old: "a - b", new: "a + b  # mark"}
    - stage_done: {summary: It adds.}
- expect: {last: ["mark 2 lines of calc.py first (1 so far)"]}
  calls:
    - edit_file: {path: calc.py, old: "def add(a, b):", new: "def add(a, b):  # mark\\n    print(a)"}
    - stage_done: {summary: It adds.}
"""
SENT_BACK = "Before verification, check your diff: calc.py prints: use a logger. Fix it, or"
TWICE_REFUSED = ["marks fail", "exit pass", "no_print fail", "exit pass"]


async def test_a_stage_is_left_and_a_diff_accepted_once_the_new_checks_hold(repo: Path) -> None:
    script = f"""{UNTIL_THE_REVIEW}
- expect: {{last: ["{SENT_BACK}"]}}
  calls:
    - edit_file: {{path: calc.py, old: "    print(a)\\n", new: ""}}
    - stage_done: {{summary: It adds and prints nothing.}}
"""
    report, finished = await carry_out(repo, script)
    assert (report.state, report.warnings) == ("SUCCESS", ())
    assert told(finished) == [*TWICE_REFUSED, "no_print pass"]


async def test_what_was_sent_back_once_is_then_a_warning(repo: Path) -> None:
    script = f"""{UNTIL_THE_REVIEW}
- expect: {{last: ["{SENT_BACK}"]}}
  calls: [{{stage_done: {{summary: The print is wanted.}}}}]
"""
    report, finished = await carry_out(repo, script)
    assert (report.state, report.warnings) == ("SUCCESS", ("calc.py prints: use a logger",))
    assert told(finished) == [*TWICE_REFUSED, "no_print fail"]
    assert report.summary.splitlines()[-1] == "Warning: calc.py prints: use a logger."


async def test_a_warning_may_come_first(repo: Path) -> None:
    script = f"{UNTIL_THE_REVIEW}\n- calls: [{{stage_done: {{summary: The print is wanted.}}}}]\n"
    leading = replace(NO_PRINT, spec=replace(NO_PRINT.spec, leads=True))
    report, _ = await carry_out(repo, script, {**MORE, "no_print": leading})
    assert report.summary.splitlines()[1] == "Warning: calc.py prints: use a logger."


async def test_people_read_the_words_of_a_check_that_was_never_met(repo: Path) -> None:
    script = """
- calls: [{edit_file: {path: calc.py, old: a - b, new: a + b}}]
- calls: [{stage_done: {summary: Done.}}]
- calls: [{stage_done: {summary: Done.}}]
- calls: [{stage_done: {summary: Done.}}]
"""
    report, finished = await carry_out(repo, script)
    assert report.state == "STUCK"
    assert {each.check for each in finished} == {"marks"}
    assert report.summary.splitlines()[:2] == [
        'Stage "work" did not complete: too few lines were marked.',
        "The model's own conclusion (not accepted): Done.",
    ]


@pytest.mark.parametrize("broken", [MARKS, NO_PRINT], ids=["stage", "diff"])
async def test_a_check_that_cannot_be_judged_is_no_fault_of_the_work(repo: Path, broken: Check) -> None:
    checks = {**MORE, "no_print": NO_PRINT, broken.name: replace(broken, judge=break_down)}
    report, finished = await carry_out(repo, UNTIL_THE_REVIEW, checks)
    assert (report.state, report.reason) == ("INFRA_ERROR", "check_broken")
    assert told(finished)[-1] == f"{broken.name} broken"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "stages: [a]\nchecks: [no_prnt]\n",
            'flow.yaml, line 2: unknown key "no_prnt": did you mean "no_print"?',
        ),
        (
            "stages:\n- id: a\n  checks: {marks: many}\n",
            'flow.yaml, line 3: "stages[0].checks.marks" must be a whole number.',
        ),
        (
            "stages:\n- id: a\n  checks: [no_print]\n",
            "flow.yaml, line 3: no_print belongs in the flow's own checks, not in a stage's.",
        ),
        (
            "stages:\n- id: a\n  tools: {allow: [read]}\n  checks: [marks]\n",
            "flow.yaml, line 4: marks needs the tool edit_file, which the stage does not have.",
        ),
    ],
)
def test_mistakes_about_a_new_check_have_their_line(repo: Path, text: str, message: str) -> None:
    (repo / "flow.yaml").write_text(text)
    (repo.parent / "script.yaml").write_text("[]")
    engine = open_engine(repo)
    with pytest.raises(ConfigError) as caught:
        engine.submit("add in calc.py has to add", Constraints())
    engine.store.close()
    assert str(caught.value) == message


def test_a_check_of_the_diff_has_no_number() -> None:
    with pytest.raises(ValueError, match="no_print: only a check at the exit of a stage has a number"):
        registry_of(replace(NO_PRINT, spec=replace(NO_PRINT.spec, argument="count")))


async def test_a_process_without_the_check_does_not_leave_it_out(repo: Path) -> None:
    (repo.parent / "script.yaml").write_text("- calls: [{stage_done: {summary: Done.}}]\n")
    engine = open_engine(repo)
    task = engine.submit("add in calc.py has to add", Constraints())
    engine.store.close()
    other = open_engine(repo, CHECKS)
    report = await other.run(task)
    other.store.close()
    assert report.state == "INFRA_ERROR"
    assert 'unknown key "marks"' in report.summary
    assert (repo / "calc.py").read_text() == CALC
