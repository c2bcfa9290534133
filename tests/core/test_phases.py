"""Phase control as data: what may be configured, where the rules lead, how an answer is read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headgate.core import (
    PhaseControl,
    PhaseState,
    advance,
    current_phase,
    fill_question,
    phase_line,
    read_answer,
)
from headgate.core.phases import ANSWER_CHARS, PhaseProbe, PhaseRules, Signals

RULES = PhaseControl(mode="rules")
READ = Signals(read=("a.py",))
WRITE = Signals(changed=("a.py",))
PLAN = Signals(plan_written=True)

names = st.sampled_from(["context", "plan", "implement", "review", "explore"])
state_lists = st.lists(names, min_size=1, unique=True)
signals = st.builds(
    Signals,
    read=st.lists(st.sampled_from("abcde"), max_size=3).map(tuple),
    changed=st.lists(st.sampled_from("abcde"), max_size=2).map(tuple),
    plan_written=st.booleans(),
)
rules = st.builds(
    PhaseRules,
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


def walk(control: PhaseControl, steps: list[Signals]) -> list[str]:
    """The phase after each turn."""
    state, phases = PhaseState(), []
    for step in steps:
        state, _ = advance(control, state, step)
        phases.append(current_phase(control, state))
    return phases


def test_defaults_are_those_of_the_specification() -> None:
    assert PhaseControl().model_dump() == {
        "mode": "off",
        "states": ("context", "plan", "implement"),
        "default": "context",
        "rules": {"min_files_read_for_plan": 1, "auto_plan_after_read": True, "write_to_implement": True},
        "probe": {"temperature": 0, "max_tokens": 64, "system_prompt": None, "user_prompt": None},
        "prompts": {},
    }


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ({"mode": "on"}, ("mode",), "Input should be 'off', 'rules', 'llm' or 'hybrid'"),
        ({"states": []}, ("states",), "Tuple should have at least 1 item after validation, not 0"),
        ({"states": ["context", "context"]}, ("states",), 'names the state "context" twice'),
        ({"states": ["context", "Context"]}, ("states",), 'names the state "Context" twice'),
        (
            {"states": ["context", "code review"]},
            ("states",),
            'must contain names such as "context" or "code-review", not "code review"',
        ),
        (
            {"default": "review"},
            ("default",),
            'must be one of the states (context, plan, implement), not "review"',
        ),
        ({"states": ["explore", "plan"]}, (), 'needs a "default": one of its states (explore, plan)'),
        (
            {"prompts": {"contxt": "Read."}},
            ("prompts",),
            'has a hint for "contxt", which is not a state: did you mean "context"?',
        ),
        (
            {"prompts": {"xyz": "Read."}},
            ("prompts",),
            'has a hint for "xyz", which is not a state: the states are context, plan, implement',
        ),
        ({"rules": {"min_files_read_for_plan": 0}}, ("rules", "min_files_read_for_plan"), None),
        ({"probe": {"max_tokens": 0}}, ("probe", "max_tokens"), None),
        ({"probe": {"temperature": -1}}, ("probe", "temperature"), None),
        ({"probe": {"temperature": "inf"}}, ("probe", "temperature"), None),
        ({"probe": {"tools": []}}, ("probe", "tools"), None),
        ({"state": ["context"]}, ("state",), None),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(
    fields: dict[str, Any], place: tuple[str, ...], message: str | None
) -> None:
    with pytest.raises(ValidationError) as caught:
        PhaseControl.model_validate(fields)
    (fault,) = caught.value.errors()
    assert fault["loc"] == place
    assert message in (None, fault["msg"].removeprefix("Value error, "))


def test_bad_states_are_reported_alone() -> None:
    with pytest.raises(ValidationError) as caught:
        PhaseControl.model_validate({"states": ["a", "a"], "default": "b", "prompts": {"c": "x"}})
    assert [fault["loc"] for fault in caught.value.errors()] == [("states",)]


@pytest.mark.parametrize(
    ("steps", "phases"),
    [
        ([Signals()], ["context"]),
        ([READ], ["plan"]),
        ([READ, READ, WRITE], ["plan", "plan", "implement"]),
        ([WRITE], ["implement"]),
        ([READ, PLAN], ["plan", "implement"]),
        ([Signals(read=("a.py",), plan_written=True)], ["implement"]),
        # A plan before the first read: nothing is left to outline once something was read.
        ([PLAN, READ], ["context", "implement"]),
        ([WRITE, READ, PLAN, Signals()], ["implement"] * 4),
    ],
)
def test_the_rules_follow_what_happened(steps: list[Signals], phases: list[str]) -> None:
    assert walk(RULES, steps) == phases


@pytest.mark.parametrize(
    ("fields", "steps", "phases"),
    [
        (
            {"rules": {"min_files_read_for_plan": 2}},
            [READ, READ, Signals(read=("b.py",))],
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
def test_a_rule_applies_only_where_it_can(fields: dict[str, Any], steps: list[Signals], phases: str) -> None:
    control = PhaseControl.model_validate({"mode": "rules", **fields})
    assert walk(control, steps) == phases.split()


@pytest.mark.parametrize(
    ("state", "step", "reason"),
    [
        (PhaseState(), Signals(), ""),
        (PhaseState(), READ, "1 file was read"),
        (PhaseState(files_read=frozenset({"b.py"})), READ, "2 files were read"),
        (PhaseState("plan"), PLAN, "a plan was written"),
        (PhaseState(), WRITE, "a file was written"),
        (PhaseState("implement"), WRITE, ""),
    ],
)
def test_a_move_has_a_reason(state: PhaseState, step: Signals, reason: str) -> None:
    assert advance(RULES, state, step)[1] == reason


def test_what_the_classifier_said_is_not_undone_by_what_came_before() -> None:
    control = PhaseControl(mode="hybrid")
    state = PhaseState()
    for step in (READ, PLAN, WRITE):
        state, _ = advance(control, state, step)
    assert state == PhaseState("implement", frozenset({"a.py"}), wrote=True, plan_written=True)
    back = state.move("context", "llm")
    assert advance(control, back) == (PhaseState("context"), "")
    assert advance(control, back, READ) == (PhaseState("plan", frozenset({"a.py"})), "1 file was read")


def test_silences_are_counted_in_a_row() -> None:
    state = PhaseState().hear(False).hear(False)
    assert state == PhaseState(silences=2)
    assert state.hear(True) == state.move("plan", "llm").move("", "rules") == PhaseState()
    assert state.move("plan", "rules") == PhaseState("plan")


@given(controls(), st.lists(signals))
def test_rules_stay_among_the_states_and_never_go_back(control: PhaseControl, steps: list[Signals]) -> None:
    places = [control.states.index(phase) for phase in [control.default, *walk(control, steps)]]
    assert places == sorted(places)


@given(controls(), st.lists(signals))
def test_the_same_signals_give_the_same_phase_in_one_turn_or_in_many(
    control: PhaseControl, steps: list[Signals]
) -> None:
    at_once = Signals(
        tuple(path for step in steps for path in step.read),
        tuple(path for step in steps for path in step.changed),
        any(step.plan_written for step in steps),
    )
    state = PhaseState()
    for step in steps:
        state, _ = advance(control, state, step)
        assert advance(control, state) == (state, "")
        assert advance(control, state, step) == (state, "")
    assert state == advance(control, PhaseState(), at_once)[0]


@given(controls(("off", "llm")), st.lists(signals))
def test_without_rules_signals_move_nothing(control: PhaseControl, steps: list[Signals]) -> None:
    assert set(walk(control, steps)) <= {control.default}


@given(controls(), signals, st.text(max_size=10))
def test_a_phase_from_elsewhere_counts_as_the_default(
    control: PhaseControl, step: Signals, phase: str
) -> None:
    state, _ = advance(control, PhaseState(phase), step)
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
    assert read_answer(RULES, text) == phase


def test_the_longer_of_two_names_is_meant_and_its_case_is_ours() -> None:
    control = PhaseControl(states=("Plan", "plan-review"), default="Plan")
    assert read_answer(control, "PLAN-REVIEW") == "plan-review"
    assert read_answer(control, "plan") == "Plan"


@given(controls(), st.text())
def test_whatever_is_answered_a_state_or_nothing_is_read(control: PhaseControl, text: str) -> None:
    assert read_answer(control, text) in (None, *control.states)


@given(controls(), st.data())
def test_every_state_can_be_named(control: PhaseControl, data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(control.states))
    for form in ("{}", "{}.", '{{"phase": "{}"}}', "I say: {}!"):
        assert read_answer(control, form.format(state.upper())) == state


def test_only_known_placeholders_are_filled_and_only_once() -> None:
    filled = fill_question('{phase} {other} {"phase": 1} {text}', {"phase": "plan", "text": "{phase}"})
    assert filled == 'plan {other} {"phase": 1} {phase}'


@pytest.mark.parametrize(
    ("mode", "uses"),
    [("off", (False, False)), ("rules", (True, False)), ("llm", (False, True)), ("hybrid", (True, True))],
)
def test_what_a_mode_uses(mode: Any, uses: tuple[bool, bool]) -> None:
    control = PhaseControl(mode=mode)
    assert (control.uses_rules, control.uses_probe) == uses


def test_one_state_leaves_nothing_to_classify() -> None:
    assert not PhaseControl(mode="llm", states=("context",), probe=PhaseProbe()).uses_probe


def test_a_line_for_people() -> None:
    line = phase_line("context", "plan", "rules", "1 file was read")
    assert line == "phase: context -> plan (rules: 1 file was read)"
