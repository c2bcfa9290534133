"""Notes that no model can make too long, in the log or in a prompt."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Note, PlanItem, bound_note, cut_text, list_names, render_notes
from headgate.core.notes import LOGGED_CHARS
from headgate.tools import render_plan

SHORT = Note(summary="Read all.", decisions=("Use a set.",), next_actions=("Write it.",), risks=("None.",))
LINES = "- a: Read all.\n  decided: Use a set.\n  next: Write it.\n  risk: None."


def test_a_short_note_is_kept_whole() -> None:
    assert bound_note(SHORT) == SHORT
    assert render_notes([("a", SHORT)], 1_000) == LINES
    assert render_notes([], 1_000) == ""
    assert render_notes([("a", Note())], 1_000) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"summary": "x" * 120_000},
        {"decisions": ("x" * 50_000,) * 9},
        {"risks": ("x",) * 50_000},
        {"next_actions": ("x" * 400,) * 300},
        {"files_read": tuple(f"src/{number}.py" for number in range(9_000))},
        {"metadata": {"log": "x" * 90_000}},
    ],
)
def test_a_long_note_is_cut_and_says_what(fields: dict[str, Any]) -> None:
    note = Note(**{**SHORT.model_dump(), **fields})
    bounded = bound_note(note)
    text = bounded.model_dump_json()
    assert len(text) < LOGGED_CHARS + 1_000
    assert "cut" in text
    assert bound_note(bounded) == bounded


def test_the_mark_names_what_was_cut() -> None:
    bounded = bound_note(Note(summary="x" * 120_000, decisions=("y" * 100,) * 900))
    assert "characters of the summary cut here ...]" in bounded.summary
    assert bounded.decisions[-1].endswith("more decisions cut here ...]")
    told = render_notes([("explore", bounded), ("plan", SHORT)], 2_000)
    assert "characters of the note of explore cut here ...]" in told
    assert "characters of the lists of explore cut here ...]" in told
    assert LINES.replace("- a:", "- plan:") in told


NOTES = st.builds(
    Note,
    summary=st.text(max_size=3_000),
    decisions=st.lists(st.text(max_size=900), max_size=9).map(tuple),
    risks=st.lists(st.text(max_size=90), max_size=90).map(tuple),
)


@given(st.lists(st.tuples(st.sampled_from(["a", "implement"]), NOTES), max_size=5), st.integers(0, 9_000))
def test_notes_fit_their_room(notes: list[tuple[str, Note]], room: int) -> None:
    told = render_notes(notes, room)
    assert len(told) <= room
    whole = render_notes(notes, 10_000_000)
    assert len(whole) > room or told == whole


@given(NOTES)
def test_a_bounded_note_is_bounded(note: Note) -> None:
    bounded = bound_note(note)
    assert len(json.dumps([bounded.summary, *bounded.decisions, *bounded.risks], ensure_ascii=False)) < 20_000
    assert bound_note(bounded) == bounded


@given(st.lists(st.text(max_size=2_000), max_size=50), st.integers(0, 9_000))
def test_a_plan_fits_its_room(steps: list[str], room: int) -> None:
    items = tuple(PlanItem(id=str(number), description=text) for number, text in enumerate(steps, 1))
    assert len(render_plan(items, room)) <= room
    assert render_plan(items, 10_000_000) == render_plan(items)


def test_names() -> None:
    assert list_names(["a", "b", "c"], 9, 100) == "a, b, c"
    assert list_names(["a", "b", "c"], 2, 100) == "1 more, b, c"
    assert list_names(["x" * 99, "b", "c"], 9, 50) == "1 more, b, c"
    assert list_names([], 9, 50) == ""


@given(st.text(max_size=400), st.integers(0, 400))
def test_a_cut_text_has_its_length(text: str, limit: int) -> None:
    cut = cut_text(text, limit, "the log")
    assert cut == text if len(text) <= limit else len(cut) == limit
