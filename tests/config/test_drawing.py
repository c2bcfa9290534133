"""Drawings of flows: what runs, in which order, behind which gates."""

from pathlib import Path

import pytest

from headgate.config import builtin_flows, draw_text, load_flow, outline
from headgate.core import Budget, Candidates, Flow, Stage, ToolScope, ToolSpec, ViewPolicy
from headgate.engine import CHECK_SPECS

WRITE = [ToolSpec("edit_file", "", {}, "write")]

EVERYTHING = Flow(
    name="all",
    description="Everything\x1b[31m at once.",
    stages=(
        Stage(
            id="work",
            label="Do\nit",
            foreach="plan",
            tools=ToolScope(allow=("read", "write"), block=("apply_patch",)),
            view=ViewPolicy(history="tail", max_messages=9, keep_first=False, truncate_chars=500),
            checks={"files_read": 2, "tool_calls": 1, "code_changed": True},
            budget=Budget(turns=1, retries=0, exhausted="skip", verify_loops=1, replan_every=2),
            model="cheap",
            needs=("plan",),
            allow_missing_done=True,
        ),
        Stage(
            id="plan",
            tools=ToolScope(allow=()),
            view=ViewPolicy(transcript="parent"),
            checks={"plan_written": True},
            advance="rules",
            required=False,
            priority="low",
        ),
        Stage(id="look", view=ViewPolicy(notes_window=0), tools=ToolScope(block=("run",)), priority="high"),
    ),
    checks={"tests_touched": True, "verify": True},
    replan_max=1,
    skip_readonly=True,
)


def test_as_text() -> None:
    assert (
        draw_text(EVERYTHING, WRITE, CHECK_SPECS)
        == """\
all: Everything [31m at once.

1. look
   tools   all, never run
   ends    by stage_done
   budget  25 turns, 1 retry, then one last turn, and the stage fails
   view    its own conversation, no notes
   order   high priority

2. plan
   tools   none
   checks  plan written
   ends    as soon as its checks hold
   budget  25 turns, 1 retry, then one last turn, and the stage fails
   view    the flow's conversation
   order   low priority
   fails   and the flow continues

3. Do it (work)
   needs   plan
   each    step of the plan; if a step fails, the plan is rewritten, at most once; \
steps that only read are skipped
   tools   only read, write, never apply_patch
   checks  2 files read, 1 tool call, code changed
   ends    by stage_done or a reply without calls
   budget  1 turn, then the stage is skipped
   view    its own conversation, notes of the last 3 stages; the last 9 messages, without its first; \
tool results cut to 500 characters, the last 3 whole
   model   cheap

After the last stage
   checks  tests_touched, verify
   fix     failures go back to look
   stuck   after 12 failed verifications, or 2 rounds in a row without a change
   replan  after 3 failures in a row: REPLAN, tools only read, ask_scout, reasoning, plan_tasks; then look again
"""  # noqa: E501
    )


def test_without_checks_the_last_stage_is_the_end() -> None:
    flow = Flow(name="f", stages=(Stage(id="a"), Stage(id="b", needs=("a",))))
    assert draw_text(flow).endswith("After the last stage\n   checks  none: the work counts as done\n")


def test_outlines() -> None:
    assert outline(EVERYTHING) == "look -> plan -> work*"
    assert outline(AT_ONCE) == "look -> any(a | b -> c) -> last"


AT_ONCE = Flow(
    name="at-once",
    stages=(
        Stage(id="look"),
        Stage(
            id="any",
            join="any",
            max_parallel=2,
            stages=(Stage(id="a"), Stage(id="b"), Stage(id="c", needs=("b",))),
        ),
        Stage(id="last"),
    ),
)


def test_what_may_run_at_once_is_said() -> None:
    assert "2. any\n   at once up to 2 of its stages\n   ends    when one of its stages" in draw_text(AT_ONCE)


@pytest.mark.parametrize("name", builtin_flows())
def test_built_in_flows_can_be_drawn(name: str, tmp_path: Path) -> None:
    flow = load_flow(name, tmp_path)
    assert all(stage.id in draw_text(flow, WRITE, CHECK_SPECS) for stage in flow.stages)


def test_whole_answers_as_text() -> None:
    flow = Flow(
        name="answers",
        begin="verify",
        stages=(
            Stage(
                id="line",
                when="suspects",
                candidates=Candidates(ask="line", suspects=3),
                budget=Budget(turns=3, seconds=90, exhausted="final_turn"),
            ),
            Stage(id="work", when="no_suspects", budget=Budget(retries=0, seconds=0.5)),
        ),
        checks={"verify": True},
    )
    begin, line, work, _ = draw_text(flow, WRITE, CHECK_SPECS).split("\n\n", maxsplit=1)[1].split("\n\n")
    assert begin == "Before the first stage\n   checks  verify"
    assert (
        line
        == """\
1. line
   when    the first check fails and shows where to look
   asks    for one line, about 3 places
   ends    with the first answer that passes
   budget  3 turns or 90 s, 1 retry, then the stage fails"""
    )
    assert (
        work
        == """\
2. work
   when    the first check passes, or does not show where to look
   tools   all
   ends    by stage_done
   budget  25 turns or 0.5 s, then one last turn, and the stage fails
   view    its own conversation, notes of the last 3 stages"""
    )


def test_a_planner_is_drawn_with_its_recipes() -> None:
    flow = load_flow("planned", Path())
    text = draw_text(flow, WRITE, CHECK_SPECS)
    assert "1. planner\n   kind    planner: the model decides which recipe is executed next\n" in text
    assert "   max_iterations 10\n   tools   only execute, escalate, reasoning\n" in text
    assert "1.1. steps\n   each    recipe that the planner has executed; its results go back" in text
    assert "step of the plan" not in text


def test_scouts_come_before_the_first_stage() -> None:
    flow = Flow(name="f", stages=(Stage(id="work"),), scouts=("code", "build"))
    assert "Before the first stage\n   facts   Scout A, Scout B\n" in draw_text(flow)
