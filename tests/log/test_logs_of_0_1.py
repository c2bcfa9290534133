"""Logs that version 0.1 wrote, before flows were trees: they are read as they are."""

from typing import Any

from headgate.core import Event, State, TaskStarted, expand_flow, read_body
from headgate.log import build_report

FLOW = {
    "name": "short",
    "stages": [
        {
            "id": "plan",
            "view": {"transcript": "parent"},
            "checks": {"plan_written": True},
            "advance": "rules",
        },
        {"id": "line", "candidates": {"ask": "line"}, "when": "suspects"},
        {"id": "work", "needs": ["plan"], "when": "no_suspects", "budget": {"verify_loops": 4}},
    ],
    "begin": "verify",
    "checks": {"diff_scope": True, "verify": True},
    "fix": "work",
    "replan": {"id": "replan", "label": "REPLAN", "checks": {"plan_written": True}, "advance": "rules"},
    "replan_max": 2,
}
NOTE = {"summary": "Done."}
STEP = {"name": "tests", "passed": False, "exit_code": 1, "timed_out": False, "seconds": 1.0}


def entered(stage: str, attempt: int, reason: str) -> dict[str, Any]:
    tools = ["edit_file", "stage_done"]
    fields = {"stage": stage, "title": stage.upper(), "attempt": attempt, "reason": reason, "tools": tools}
    return {"kind": "stage_started", **fields, "turns": 5}


def without_kind(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "kind"}


BODIES: list[tuple[str, dict[str, Any]]] = [
    (
        "",
        {
            "kind": "task_started",
            "text": "Fix it.",
            "goal": "Fix it.",
            "constraints": {},
            "flow": FLOW,
            "model": "openai/x",
            "tools": ["edit_file"],
            "baseline": "abc",
            "config": {},
        },
    ),
    ("work", entered("work", 1, "next")),
    ("work", {"kind": "stage_ended", "stage": "work", "ending": "completed", "reason": "done", "note": NOTE}),
    ("", {"kind": "check_finished", "check": "diff_scope", "verdict": "fail", "reason": "too wide"}),
    ("work#2", entered("work", 2, "review")),
    (
        "work#2",
        {"kind": "stage_ended", "stage": "work", "ending": "completed", "reason": "done", "note": NOTE},
    ),
    ("", {"kind": "check_finished", "check": "diff_scope", "verdict": "fail", "reason": "still too wide"}),
    ("", {"kind": "verify_started", "run_id": "run_1", "steps": ["tests"]}),
    ("", {"kind": "verify_finished", "run_id": "run_1", "passed": False, "steps": [STEP], "reason": "red"}),
    ("work#3", entered("work", 3, "check_failed")),
    ("work#3", {"kind": "decision_made", "action": "retry", "reason": "max_turns"}),
    (
        "work#3",
        {"kind": "stage_ended", "stage": "work", "ending": "failed", "reason": "max_turns", "note": NOTE},
    ),
    ("work#4", entered("work", 4, "retry")),
    (
        "work#4",
        {"kind": "stage_ended", "stage": "work", "ending": "completed", "reason": "done", "note": NOTE},
    ),
    ("work", {"kind": "fix_attempted", "loop": 1, "diff": ""}),
    ("", {"kind": "verify_started", "run_id": "run_2", "steps": ["tests"]}),
    ("", {"kind": "verify_finished", "run_id": "run_2", "passed": True, "steps": []}),
]


def test_a_log_of_0_1_tells_what_it_told() -> None:
    state, said = State(), []
    for seq, (path, body) in enumerate(BODIES, 1):
        event = Event(seq, "t1", path, 0, float(seq), read_body(body["kind"], without_kind(body)))
        state.apply(event)
        line = event.line(state)
        said.append(line.text if line else "")
    assert list(filter(None, said)) == [
        "Task t1 started: short flow, openai/x",
        "WORK: working...",
        "WORK: looking at the diff again: too wide",
        "Running verification...",
        "Verification failed: red",
        "Verification failed, debugging... Attempt 2...",
        "WORK: did not complete: its turns are used up",
        "WORK: started again",
        "Running verification...",
        "Verification passed",
    ]
    report = build_report(state)
    assert (report.attempts, report.verify_loops, report.run_ids) == (2, 1, ("run_1", "run_2"))
    assert report.warnings == ("still too wide",)
    assert state.tree.attempts_at("work") == 4


def test_its_flow_is_expanded_when_the_task_goes_on() -> None:
    started = read_body("task_started", without_kind(BODIES[0][1]))
    assert isinstance(started, TaskStarted)
    flow = started.flow
    assert [stage.id for stage in expand_flow(flow, [], ()).stages] == [
        "suspects",
        "plan",
        "line",
        "work",
        "rounds",
    ]
