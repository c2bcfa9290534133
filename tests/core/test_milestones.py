"""The lines that people watch, where they depend on more than their event."""

from collections import Counter
from typing import Any

import pytest

from headgate.core import (
    Body,
    CandidateTried,
    CheckFinished,
    Constraints,
    DecisionMade,
    Event,
    Flow,
    Note,
    ProposalMade,
    ReplyFailed,
    ReplyReceived,
    RewriteRefused,
    RewriteStarted,
    Stage,
    StageEnded,
    StageStarted,
    State,
    StepFailed,
    StepResult,
    StopAsked,
    SuspectsFound,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskStatusGiven,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    VerifyRuns,
    VerifyStarted,
)
from headgate.core.counts import Fault, describe_faults
from headgate.log import write_summary

STARTED = TaskStarted(
    text="x",
    goal="x",
    constraints=Constraints(),
    flow=Flow(name="f", stages=(Stage(id="work"),)),
    model="script:s.yaml",
    tools=(),
    baseline="",
    config={},
)
REVISED = StageStarted(stage="work", title="WORK", attempt=2, reason="review", tools=(), turns=5)


def lines(*bodies: Body, tries_again: str = "", every: float = 1.0) -> list[tuple[float, str]]:
    """The milestones, each with how long the task had been worked on; one event every so many seconds."""
    state, told = State(tries_again=tries_again), []
    for number, body in enumerate(bodies):
        event = Event(number + 1, "t2", "", 0, 1000.0 + number * every, body)
        state.apply(event)
        if line := event.line(state):
            told.append((state.seconds, line.text))
    return told


def test_a_second_look_says_why() -> None:
    found = CheckFinished(
        check="tests_touched", verdict="fail", reason="No test covers it. Add one; see tests/."
    )
    quiet = CheckFinished(check="diff_scope", verdict="pass")
    assert lines(STARTED, quiet, found, REVISED)[1:] == [
        (3.0, "WORK: looking at the diff again: No test covers it")
    ]
    assert lines(STARTED, REVISED)[1:] == [(1.0, "WORK: looking at the diff again")]


@pytest.mark.parametrize(
    ("kind", "reason", "line"),
    [
        ("scout", "next", "Querying Scout A... reading the code map"),
        ("talk", "next", "Scout A: a model reads on..."),
        ("talk", "retry", "Scout A: started again"),
    ],
)
def test_a_scout_that_is_a_model_is_told_from_one_that_is_not(kind: str, reason: Any, line: str) -> None:
    scout = REVISED.model_copy(update={"title": "Scout A", "reason": reason, "stage_kind": kind})
    assert lines(STARTED, scout)[1:] == [(1.0, line)]


def test_what_a_server_could_not_do_is_a_warning() -> None:
    reply = ReplyReceived(prompt_tokens=1, completion_tokens=1, cached_tokens=0, finish="calls", calls=())
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
    state = State()
    state[VerifyRuns].run_ids, state[VerifyRuns].ended = runs, set(runs)
    assert write_summary(state, "STUCK", "unfinished", "", ()).splitlines()[-1] == line


def test_a_new_try_says_of_what() -> None:
    assert lines(STARTED, tries_again="t1") == [(0.0, "Task t2 started: f flow, script:s.yaml; retry of t1")]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            RewriteStarted(purpose="apply", changes=()),
            "The proposed changes are already in the working tree: nothing to write",
        ),
        (
            RewriteRefused(purpose="apply", conflicts=("a: gone",)),
            "The proposal no longer applies; nothing was changed: a: gone",
        ),
        (
            TaskEnded(state="CANCELLED", verified=False, reason="aborted", summary="", files_changed=()),
            "CANCELLED: the proposal was discarded",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_proposal_s_waiting_is_no_work(body: Body, line: str) -> None:
    proposed = ProposalMade(before="", after="", summary="", files_changed=())
    resumed = TaskResumed()
    assert lines(STARTED, resumed, proposed, body, every=3600.0)[2:] == [
        (3600.0, "PROPOSED: no change"),
        (3600.0, line),
    ]


def test_whole_answers() -> None:
    step = StepResult(name="tests", passed=False, exit_code=1, timed_out=False, seconds=1)
    opening = {"run_id": "run_1", "asked": True, "opening": True}
    failing = ("a.py::test_x: 1 != 2", "a.py::test_y")
    told = lines(
        VerifyStarted(steps=("tests",), **opening),
        VerifyFinished(passed=False, steps=(step,), failing=failing, reason="no", **opening),
        SuspectsFound(functions=("a.py: f",), files=("a.py",)),
        CandidateTried(place="a.py: f", verdict="unchanged"),
        CandidateTried(place="a.py: f", verdict="failed", reason="2 tests"),
        VerifyFinished(passed=True, steps=(), **opening),
        SuspectsFound(),
    )
    assert [line for _, line in told] == [
        "Running the check first...",
        "It fails: a.py::test_x: 1 != 2 (and 1 more)",
        "Suspect: a.py: f",
        "Answer 1 (a.py: f): unchanged",
        "Answer 2 (a.py: f): failed, 2 tests",
        "It passes",
    ]


def test_time_in_which_nobody_worked_is_not_the_stage_s() -> None:
    state = State()
    started = StageStarted(stage="work", title="WORK", attempt=1, reason="next", tools=(), turns=5)
    story: list[tuple[str, float, Body]] = [
        ("", 0.0, STARTED),
        ("work", 1.0, started),
        ("work", 4.0, StopAsked()),
        ("", 1004.0, TaskResumed()),
        ("work", 1006.0, StopAsked()),
    ]
    for number, (path, at, body) in enumerate(story, 1):
        state.apply(Event(number, "t2", path, 0, 1000.0 + at, body))
    assert state.nodes["work"].counts.seconds == 5.0


def test_a_status_says_what_is_done_and_what_remains() -> None:
    fields = {"ready_for_final_report": False, "need_to_run_more_tools": True}
    full = TaskStatusGiven(status="in-progress", done="read it", pending="the fix", now="editing", **fields)
    short = TaskStatusGiven(status="starting", done=" ", pending="", now="reading", **fields)
    assert [line for _, line in lines(full, short)] == [
        "Status: in-progress: editing; done: read it; pending: the fix",
        "Status: starting: reading",
    ]


def test_reasons_of_an_ending_do_not_repeat_their_slug() -> None:
    spent = StageEnded(stage="work", ending="failed", reason="final_turn_spent", note=Note())
    ended = TaskEnded(state="STUCK", verified=False, reason="no_progress", summary="", files_changed=())
    assert [line for _, line in lines(STARTED, spent, ended)][1:] == [
        "work: did not complete: it did not conclude in its last turn",
        "STUCK: the last attempts changed nothing",
    ]


@pytest.mark.parametrize(
    ("kind", "decided", "line"),
    [
        (
            "talk",
            ("fail", "escalated", "There is no such file. Look again."),
            "handed its work back: There is no such file",
        ),
        ("planner", ("fail", "escalated", "It needs a key."), "gave the task up: It needs a key"),
        (
            "talk",
            ("fail", "final_turn_spent", "3 replies without a tool call; 1 failed call"),
            "did not complete: it did not conclude in its last turn (3 replies without a tool call)",
        ),
        ("talk", ("skip", "max_turns", ""), "skipped: its turns are used up"),
    ],
)
def test_the_end_of_a_stage_says_why_in_words(kind: str, decided: tuple[str, str, str], line: str) -> None:
    action, reason, detail = decided
    started = REVISED.model_copy(update={"reason": "next", "stage_kind": kind})
    decision = DecisionMade(action=action, reason=reason, detail=detail)
    ending: Any = "skipped" if action == "skip" else "failed"
    ended = StageEnded(stage="work", ending=ending, reason=reason, note=Note())
    assert lines(STARTED, started, decision, ended)[-1][1] == f"WORK: {line}"


def test_a_planner_and_a_last_turn_are_told_in_words() -> None:
    planner = REVISED.model_copy(update={"title": "PLANNER", "reason": "next", "stage_kind": "planner"})
    faults = "3 replies without a tool call"
    final = DecisionMade(action="final_turn", reason="retry_exhaustion", detail=faults)
    asked = DecisionMade(action="final_turn", reason="user_stop")
    assert [line for _, line in lines(STARTED, planner, final, asked)][1:] == [
        "PLANNER: deciding what to do...",
        f"Asking for a conclusion: {faults}",
        "Asking for a conclusion",
    ]


def test_time_before_the_start_counts() -> None:
    began = STARTED.model_copy(update={"began": 990.0})
    assert [seconds for seconds, _ in lines(began)] == [10.0]


STEP = StepResult(name="tests", passed=False, exit_code=1, timed_out=False, seconds=1)
FAILING = ("a.py::test_x: 1 != 2", "a.py::test_y: 3 != 4", "a.py::test_z")
TOLD = "a.py::test_x: 1 != 2 (and 2 more)"
REASON = 'step "tests" (pytest -q) failed with exit code 1'
CLAUSE = "; the same tests failed before this task as well"


def verified(passed: bool = False, **fields: Any) -> VerifyFinished:
    said = {"reason": REASON + CLAUSE, "failing": FAILING, "clause": CLAUSE} if not passed else {}
    return VerifyFinished(run_id="run_1", passed=passed, steps=(STEP,), **{**said, **fields})


BEGUN = VerifyStarted(run_id="run_1", steps=("tests",))
BROKE = StepFailed(run_id="run_1", step="tests", sentence=TOLD)


def test_a_failure_is_told_when_its_step_fails_and_only_once() -> None:
    assert [line for _, line in lines(STARTED, BEGUN, BROKE, verified())][1:] == [
        "Running verification...",
        f"Verification failed: {TOLD}",
        "The same tests failed before this task as well",
    ]
    again = lines(STARTED, BEGUN, BROKE, verified(), BEGUN, BROKE, verified())
    assert [line for _, line in again][4:] == ["Running verification...", f"Verification failed: {TOLD}"]
    plain = verified(reason=REASON, clause="")
    assert [line for _, line in lines(STARTED, BEGUN, BROKE, plain)][1:] == [
        "Running verification...",
        f"Verification failed: {TOLD}",
    ]


def test_a_failure_that_may_be_accepted_is_not_called_one_before_that_is_known() -> None:
    open_still = BROKE.model_copy(update={"decides": False})
    accepted = verified(passed=True, forgiven=("tests",))
    assert [line for _, line in lines(STARTED, BEGUN, open_still, accepted)][2:] == [
        f'Step "tests" failed: {TOLD}',
        "Verification passed; failed as before the task: tests",
    ]
    assert [line for _, line in lines(STARTED, BEGUN, open_still, verified())][2:] == [
        f'Step "tests" failed: {TOLD}',
        f"Verification failed: {TOLD}{CLAUSE}",
    ]


def test_a_server_that_is_away_is_said_once_whatever_it_said_last() -> None:
    cut, gone = (
        ReplyFailed(error="unavailable", detail=said, server="away")
        for said in ("It was cut.", "It is gone.")
    )
    loading = ReplyFailed(error="unavailable", detail="It loads.", server="loading")
    wait = DecisionMade(action="wait", reason="model_away", detail="the model server is away")
    waits = DecisionMade(action="wait", reason="model_away", detail="the model server is loading the model")
    entered = StageStarted(stage="work", title="WORK", attempt=1, reason="next", tools=(), turns=5)
    told = lines(STARTED, entered, cut, wait, gone, wait, gone, wait, loading, waits)
    assert [line for _, line in told][2:] == [
        "Model: It was cut.",
        "The model server is away",
        "Model: It is gone.",
        "Model: It loads.",
        "The model server is loading the model",
    ]


def test_a_failure_of_an_earlier_version_is_told_at_its_end() -> None:
    assert lines(STARTED, BEGUN, verified())[-1][1] == f"Verification failed: {TOLD}{CLAUSE}"


def test_what_a_server_could_not_do_is_told_once() -> None:
    reply = ReplyReceived(finish="calls", calls=(), remark="Calls are read from text from now on.")
    assert [line for _, line in lines(STARTED, reply, reply)][1:] == [
        "Warning: Calls are read from text from now on"
    ]


# Calls, a line each.


def called(name: str, target: str, category: Any = "read", **finished: Any) -> list[str]:
    """The lines of one call."""
    state = State()
    bodies: list[Body] = [
        ToolStarted(call="c", name=name, category=category, target=target),
        ToolFinished(call="c", name=name, category=category, **{"ok": True, **finished}),
    ]
    said = []
    for number, body in enumerate(bodies):
        event = Event(number, "t1", "work", 1, 0.0, body)
        state.apply(event)
        said.append(event.line(state))
    return [line.text for line in said if line and line.tone == "call"]


@pytest.mark.parametrize(
    ("name", "target", "fields", "line"),
    [
        ("read_file", "cal/dates.py", {}, "read cal/dates.py"),
        (
            "read_files",
            "a.py, b",
            {"read": ("a.py", "b.py", "c.py", "d.py")},
            "read a.py, b.py, c.py and 1 more",
        ),
        ("edit_file", "cal/dates.py", {"category": "write", "told": "+3 -1"}, "edit cal/dates.py +3 -1"),
        ("apply_patch", "", {"category": "write", "told": "+3 -1", "changed": ("a.py",)}, "patch a.py +3 -1"),
        ("shell", "pytest -q", {"category": "run"}, "run pytest -q"),
        (
            "shell",
            "pytest -q",
            {"category": "run", "told": "exit code 1"},
            "run pytest -q: failed (exit code 1)",
        ),
        ("shell", "sleep 9", {"category": "run", "told": "timed out"}, "run sleep 9: timed out"),
        (
            "edit_file",
            "a.py",
            {
                "category": "write",
                "ok": False,
                "error": "failed",
                "detail": "edit_file: `old` is not in a.py; read it.",
            },
            "edit a.py: failed: `old` is not in a.py",
        ),
        ("lookup__find", "x", {"category": None}, "lookup__find x"),
    ],
)
def test_a_call_is_a_line(name: str, target: str, fields: dict[str, Any], line: str) -> None:
    assert called(name, target, **fields) == [line]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("think", {"category": "reasoning"}),
        ("stage_done", {"category": "control"}),
        ("run_tests", {"category": "run"}),
        ("write_file", {"category": "write", "ok": False, "error": "denied", "detail": "No."}),
    ],
    ids=["a thought", "a signal", "a milestone of its own", "a refusal is a milestone"],
)
def test_a_call_that_is_no_line(name: str, fields: dict[str, Any]) -> None:
    assert called(name, "x", **fields) == []


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
    assert (
        describe_faults(Counter({Fault(*kind.split(" ", 1)): count for kind, count in faults.items()}))
        == said
    )


def test_a_start_names_servers_on_other_machines() -> None:
    assert lines(STARTED) == [(0.0, "Task t2 started: f flow, script:s.yaml")]
    away = ("script:s.yaml", "http://192.0.2.2:1"), ("openai/b", "https://api.openai.com/v1")
    assert lines(STARTED.model_copy(update={"elsewhere": away})) == [
        (
            0.0,
            "Task t2 started: f flow, script:s.yaml at http://192.0.2.2:1, openai/b at https://api.openai.com/v1",
        )
    ]
