"""The lines that people watch, where they depend on more than their event."""

from collections import Counter
from typing import Any

import pytest

from headgate.core import events as ev
from headgate.core.attempt import describe_faults
from headgate.core.flow import Flow, Stage
from headgate.core.history import RunRecord
from headgate.core.milestones import milestone
from headgate.core.state import State
from headgate.core.summary import write_summary
from headgate.core.task import Constraints

STARTED = ev.TaskStarted(
    text="x",
    goal="x",
    constraints=Constraints(),
    flow=Flow(name="f", stages=(Stage(id="work"),)),
    model="script:s.yaml",
    tools=(),
    baseline="",
    config={},
)
REVISED = ev.StageStarted(stage="work", title="WORK", attempt=2, reason="review", tools=(), turns=5)


def lines(*bodies: ev.AnyBody, tries_again: str = "", every: float = 1.0) -> list[tuple[float, str]]:
    """The milestones, each with how long the task had been worked on; one event every so many seconds."""
    state, told = State(), []
    for number, body in enumerate(bodies):
        event = ev.Event(number + 1, "t2", "", 0, 1000.0 + number * every, body)
        state.apply(event)
        if line := milestone(event, state, tries_again):
            told.append((state.seconds, line))
    return told


def test_a_second_look_says_why() -> None:
    found = ev.CheckFinished(
        check="tests_touched", verdict="fail", reason="No test covers it. Add one; see tests/."
    )
    quiet = ev.CheckFinished(check="diff_scope", verdict="pass")
    assert lines(STARTED, quiet, found, REVISED)[1:] == [
        (3.0, "WORK: looking at the diff again: No test covers it")
    ]
    assert lines(STARTED, REVISED)[1:] == [(1.0, "WORK: looking at the diff again")]


@pytest.mark.parametrize(
    ("kind", "reason", "line"),
    [
        ("scout", "next", "Querying Scout A..."),
        ("talk", "next", "Scout A: a model reads on..."),
        ("talk", "retry", "Scout A: started again"),
    ],
)
def test_a_scout_that_is_a_model_is_told_from_one_that_is_not(kind: str, reason: Any, line: str) -> None:
    scout = REVISED.model_copy(update={"title": "Scout A", "reason": reason, "stage_kind": kind})
    assert lines(STARTED, scout)[1:] == [(1.0, line)]


def test_what_a_server_could_not_do_is_a_warning() -> None:
    reply = ev.ReplyReceived(prompt_tokens=1, completion_tokens=1, cached_tokens=0, finish="calls", calls=())
    warned = reply.model_copy(update={"remark": "It takes no schema."})
    assert lines(STARTED, reply, warned, reply)[1:] == [(2.0, "Warning: It takes no schema")]


@pytest.mark.parametrize(
    ("runs", "line"),
    [
        (["a"], "Verification log: .headgate/runs/a/combined.log."),
        (["a", "b", "c"], "3 verification runs; the last log is .headgate/runs/c/combined.log."),
    ],
)
def test_runs_are_counted_and_the_last_log_is_named(runs: list[str], line: str) -> None:
    state = State(run_ids=runs, runs=RunRecord(ended=set(runs)))
    assert write_summary(state, "STUCK", "unfinished", "", ()).splitlines()[-1] == line


def test_a_new_try_says_of_what() -> None:
    assert lines(STARTED, tries_again="t1") == [(0.0, "Task t2 started: f flow, script:s.yaml; retry of t1")]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            ev.ApplyStarted(baseline="", changes=()),
            "The proposed changes are already in the working tree: nothing to write",
        ),
        (
            ev.ApplyRefused(conflicts=("a: gone",)),
            "The proposal no longer applies; nothing was changed: a: gone",
        ),
        (
            ev.TaskEnded(state="CANCELLED", verified=False, reason="aborted", summary="", files_changed=()),
            "CANCELLED (aborted): the proposal was discarded",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_proposal_s_waiting_is_no_work(body: ev.AnyBody, line: str) -> None:
    proposed = ev.ProposalMade(before="", after="", summary="", files_changed=())
    resumed = ev.TaskResumed()
    assert lines(STARTED, resumed, proposed, body, every=3600.0)[2:] == [
        (3600.0, "PROPOSED: no change"),
        (3600.0, line),
    ]


def test_whole_answers() -> None:
    step = ev.StepResult(name="tests", passed=False, exit_code=1, timed_out=False, seconds=1)
    opening = {"run_id": "run_1", "asked": True, "opening": True}
    failing = ("a.py::test_x: 1 != 2", "a.py::test_y")
    told = lines(
        ev.VerifyStarted(steps=("tests",), **opening),
        ev.VerifyFinished(passed=False, steps=(step,), failing=failing, reason="no", **opening),
        ev.SuspectsFound(functions=("a.py: f",), files=("a.py",)),
        ev.CandidateTried(place="a.py: f", verdict="unchanged"),
        ev.CandidateTried(place="a.py: f", verdict="failed", reason="2 tests"),
        ev.VerifyFinished(passed=True, steps=(), **opening),
        ev.SuspectsFound(),
    )
    assert [line for _, line in told] == [
        "Running the check first (run 1)...",
        "It fails: a.py::test_x: 1 != 2 (and 1 more)",
        "Suspect: a.py: f",
        "Answer 1 (a.py: f): unchanged",
        "Answer 2 (a.py: f): failed, 2 tests",
        "It passes",
    ]


def test_time_in_which_nobody_worked_is_not_the_stage_s() -> None:
    state = State()
    started = ev.StageStarted(stage="work", title="WORK", attempt=1, reason="next", tools=(), turns=5)
    story: list[tuple[str, float, ev.AnyBody]] = [
        ("", 0.0, STARTED),
        ("work", 1.0, started),
        ("work", 4.0, ev.StopAsked()),
        ("", 1004.0, ev.TaskResumed()),
        ("work", 1006.0, ev.StopAsked()),
    ]
    for number, (path, at, body) in enumerate(story, 1):
        state.apply(ev.Event(number, "t2", path, 0, 1000.0 + at, body))
    assert state.nodes["work"].tally().seconds == 5.0


def test_a_status_says_what_is_done_and_what_remains() -> None:
    fields = {"ready_for_final_report": False, "need_to_run_more_tools": True}
    full = ev.TaskStatusGiven(
        status="in-progress", done="read it", pending="the fix", now="editing", **fields
    )
    short = ev.TaskStatusGiven(status="starting", done=" ", pending="", now="reading", **fields)
    assert [line for _, line in lines(full, short)] == [
        "Status: in-progress: editing; done: read it; pending: the fix",
        "Status: starting: reading",
    ]


def test_reasons_of_an_ending_do_not_repeat_their_slug() -> None:
    spent = ev.StageEnded(stage="work", ending="failed", reason="final_turn_spent", note=ev.Note())
    ended = ev.TaskEnded(state="STUCK", verified=False, reason="no_progress", summary="", files_changed=())
    assert [line for _, line in lines(STARTED, spent, ended)][1:] == [
        "work: failed (final_turn_spent): the final turn was not enough",
        "STUCK (no_progress): the last attempts changed nothing",
    ]


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({}, ""),
        ({"failed": 1}, "1 failed call"),
        (
            {"failed": 4, "not_done without changing a file": 3},
            "4 failed calls; the model said it was done 3 times without changing a file",
        ),
        ({"text_only": 2, "final": 1}, "2 replies without a tool call; no tool call in the last reply"),
    ],
)
def test_faults_are_counted_in_a_short_list(faults: dict[str, int], said: str) -> None:
    assert describe_faults(Counter(faults)) == said


def test_a_start_names_servers_on_other_machines() -> None:
    assert lines(STARTED) == [(0.0, "Task t2 started: f flow, script:s.yaml")]
    away = ("script:s.yaml", "http://192.0.2.2:1"), ("openai/b", "https://api.openai.com/v1")
    assert lines(STARTED.model_copy(update={"elsewhere": away})) == [
        (
            0.0,
            "Task t2 started: f flow, script:s.yaml at http://192.0.2.2:1, openai/b at https://api.openai.com/v1",
        )
    ]
