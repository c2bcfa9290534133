"""Where the rules of phases lead, and how a classifier's answer is read."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.config import PhaseControl
from headgate.features.phases.classifier import ANSWER_CHARS, read_answer
from headgate.features.phases.events import PhaseChanged, PhaseState
from headgate.features.phases.feature import advance, current_phase

RULES = PhaseControl(mode="rules")
READ, READ_OTHER = {"files_read": {"a.py"}}, {"files_read": {"b.py"}}
WRITE = {"wrote": True}
PLAN = {"plan_written": True}

names = st.sampled_from(["context", "plan", "implement", "review", "explore"])
state_lists = st.lists(names, min_size=1, unique=True)
signals = st.fixed_dictionaries(
    {},
    optional={
        "files_read": st.frozensets(st.sampled_from("abcde"), max_size=3),
        "wrote": st.just(True),
        "plan_written": st.just(True),
    },
)
Step = dict[str, Any]
rules = st.builds(
    dict,
    min_files_read_for_plan=st.integers(1, 4),
    auto_plan_after_read=st.booleans(),
    write_to_implement=st.booleans(),
)


@st.composite
def controls(draw: st.DrawFn, modes: tuple[str, ...] = ("rules", "hybrid")) -> PhaseControl:
    states = draw(state_lists)
    fields = {
        "mode": draw(st.sampled_from(modes)),
        "states": states,
        "default": draw(st.sampled_from(states)),
        "rules": draw(rules),
    }
    return PhaseControl.model_validate(fields)


def after(state: PhaseState, *steps: Step) -> PhaseState:
    """What events count."""
    for step in steps:
        state = replace(state, **{**step, "files_read": state.files_read | step.get("files_read", set())})
    return state


def walk(control: PhaseControl, steps: list[Step]) -> list[str]:
    """The phase after each turn."""
    state, phases = PhaseState(), []
    for step in steps:
        state, _ = advance(control, after(state, step))
        phases.append(current_phase(control, state))
    return phases


@pytest.mark.parametrize(
    ("steps", "phases"),
    [
        ([{}], ["context"]),
        ([READ], ["plan"]),
        ([READ, READ, WRITE], ["plan", "plan", "implement"]),
        ([WRITE], ["implement"]),
        ([READ, PLAN], ["plan", "implement"]),
        ([READ | PLAN], ["implement"]),
        # A plan before the first read: nothing is left to outline once something was read.
        ([PLAN, READ], ["context", "implement"]),
        ([WRITE, READ, PLAN, {}], ["implement"] * 4),
    ],
)
def test_the_rules_follow_what_happened(steps: list[Step], phases: list[str]) -> None:
    assert walk(RULES, steps) == phases


@pytest.mark.parametrize(
    ("fields", "steps", "phases"),
    [
        (
            {"rules": {"min_files_read_for_plan": 2}},
            [READ, READ, READ_OTHER],
            "context context plan",
        ),
        ({"rules": {"auto_plan_after_read": False}}, [READ, PLAN, WRITE], "context context implement"),
        ({"rules": {"write_to_implement": False}}, [READ, PLAN, WRITE], "plan plan plan"),
        ({"states": ["context", "implement"]}, [READ, PLAN, WRITE], "context context implement"),
        ({"states": ["context", "plan"]}, [WRITE, READ, PLAN], "context plan plan"),
        ({"states": ["explore", "implement"], "default": "explore"}, [READ, WRITE], "explore implement"),
        ({"states": ["plan", "context"]}, [READ], "context"),
        (
            {"states": ["context", "implement", "review"], "default": "review"},
            [READ, WRITE],
            "review review",
        ),
    ],
)
def test_a_rule_applies_only_where_it_can(fields: dict[str, Any], steps: list[Step], phases: str) -> None:
    control = PhaseControl.model_validate({"mode": "rules", **fields})
    assert walk(control, steps) == phases.split()


@pytest.mark.parametrize(
    ("state", "step", "reason"),
    [
        (PhaseState(), {}, ""),
        (PhaseState(), READ, "1 file was read"),
        (PhaseState(files_read=frozenset({"b.py"})), READ, "2 files were read"),
        (PhaseState("plan"), PLAN, "a plan was written"),
        (PhaseState(), WRITE, "a file was written"),
        (PhaseState("implement"), WRITE, ""),
    ],
)
def test_a_move_has_a_reason(state: PhaseState, step: Step, reason: str) -> None:
    assert advance(RULES, after(state, step))[1] == reason


def test_what_the_classifier_said_is_not_undone_by_what_came_before() -> None:
    control = PhaseControl(mode="hybrid")
    state = PhaseState()
    for step in (READ, PLAN, WRITE):
        state, _ = advance(control, after(state, step))
    assert state == PhaseState("implement", frozenset({"a.py"}), wrote=True, plan_written=True)
    back = state.move("context", "llm")
    assert advance(control, back) == (PhaseState("context"), "")
    assert advance(control, after(back, READ)) == (PhaseState("plan", frozenset({"a.py"})), "1 file was read")


@given(controls(), st.lists(signals))
def test_rules_stay_among_the_states_and_never_go_back(control: PhaseControl, steps: list[Step]) -> None:
    places = [control.states.index(phase) for phase in [control.default, *walk(control, steps)]]
    assert places == sorted(places)


@given(controls(), st.lists(signals))
def test_the_same_signals_give_the_same_phase_in_one_turn_or_in_many(
    control: PhaseControl, steps: list[Step]
) -> None:
    state = PhaseState()
    for step in steps:
        state, _ = advance(control, after(state, step))
        assert advance(control, state) == (state, "")
        assert advance(control, after(state, step)) == (state, "")
    assert state == advance(control, after(PhaseState(), *steps))[0]


@given(controls(("off", "llm")), st.lists(signals))
def test_without_rules_signals_move_nothing(control: PhaseControl, steps: list[Step]) -> None:
    assert set(walk(control, steps)) <= {control.default}


@given(controls(), signals, st.text(max_size=10))
def test_a_phase_from_elsewhere_counts_as_the_default(control: PhaseControl, step: Step, phase: str) -> None:
    state, _ = advance(control, after(PhaseState(phase), step))
    assert current_phase(control, state) in control.states


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("plan", "plan"),
        ("  **Plan**.", "plan"),
        ('{"phase": "implement"}', "implement"),
        ('```json\n{"why": "no plan yet", "phase": "context"}\n```', "context"),
        ("{'Phase': 'The plan phase'}", "plan"),
        ('{"phase": "unclear", "why": "neither plan nor context"}', None),
        ("The agent should implement now; the plan is done.", "implement"),
        ("<think>context? plan?</think>\nimplement", "implement"),
        ("<think>context or plan, hmm", None),
        ("planning", None),
        ("re-plan", None),
        ("plan_b", None),
        ("", None),
        ("No idea.", None),
        ("x" * ANSWER_CHARS + " plan", None),
    ],
)
def test_an_answer_is_read_leniently(text: str, phase: str | None) -> None:
    assert read_answer(RULES.states, text) == phase


def test_the_longer_of_two_names_is_meant_and_its_case_is_ours() -> None:
    control = PhaseControl(states=("Plan", "plan-review"), default="Plan")
    assert read_answer(control.states, "PLAN-REVIEW") == "plan-review"
    assert read_answer(control.states, "plan") == "Plan"


@given(controls(), st.text())
def test_whatever_is_answered_a_state_or_nothing_is_read(control: PhaseControl, text: str) -> None:
    assert read_answer(control.states, text) in (None, *control.states)


@given(controls(), st.data())
def test_every_state_can_be_named(control: PhaseControl, data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(control.states))
    for form in ("{}", "{}.", '{{"phase": "{}"}}', "I say: {}!"):
        assert read_answer(control.states, form.format(state.upper())) == state


def test_a_line_for_people() -> None:
    change = PhaseChanged(before="context", phase="plan", by="rules", reason="1 file was read")
    assert str(change) == "phase: context -> plan (rules: 1 file was read)"
