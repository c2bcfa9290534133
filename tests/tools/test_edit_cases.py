"""Search-and-replace edits that other people collected, run through ours."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cases import CASES, case_path
from headgate.errors import ToolFailed
from headgate.tools.editing import edit_text

BLOCK = re.compile(
    r"^<<<<<<< SEARCH\n"
    r"(?::start_line:[ ]*\d+\n)?(?::end_line:[ ]*\d+\n)?(?:-------\n)?"
    r"(?P<old>.*?)\n?"
    r"^=======\s*\n"
    r"(?P<new>.*?)\n?"
    r"^>>>>>>> REPLACE",
    re.MULTILINE | re.DOTALL,
)

AMBIGUOUS = "`old` occurs 5 times in the file: lines 2, 6, 10, 14 and 18."
DIFFERENT = {
    "should handle mixed indentation styles in the same file": (
        "The lines are shifted by different amounts, so there is no telling how to indent the new ones.",
        "+ 5:             this.init();",
    ),
    "should find matches from middle out": (
        "Five equal places and nothing to tell which is meant: they take the one in the middle.",
        AMBIGUOUS,
    ),
    "should match content with small differences (>90% similar)": (
        "A word differs; a similar text is not the text, so we show it and change nothing.",
        "+ 2:     const results = fetchData();",
    ),
}
"""Where we differ on purpose: the reason, and what our refusal says."""


def load_cases() -> Iterator[Any]:
    path = CASES / "edit-roo" / "cases.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        case = json.loads(line)
        yield pytest.param(case, id=case["test"].rsplit(" > ", 1)[-1])


def apply_blocks(text: str, diff: str) -> str:
    """Every block of a diff, as whole lines, one after the other."""
    blocks = list(BLOCK.finditer(diff))
    if not blocks:
        raise ToolFailed("there is no block in the diff")
    for block in blocks:
        old, new = (part + "\n" if part else "" for part in (block["old"], block["new"]))
        text = edit_text(text, old, new).text
    return text


@pytest.mark.parametrize("case", list(load_cases()))
def test_edit_agrees(case: dict[str, Any]) -> None:
    name = case["test"].rsplit(" > ", 1)[-1]
    if name in DIFFERENT:
        _, refusal = DIFFERENT[name]
        with pytest.raises(ToolFailed) as caught:
            apply_blocks(case["original"], case["diff"])
        assert refusal in str(caught.value)
    elif case["result"]["success"]:
        assert apply_blocks(case["original"], case["diff"]) == case["result"]["content"]
    else:
        with pytest.raises(ToolFailed):
            apply_blocks(case["original"], case["diff"])


def test_all_cases_are_read() -> None:
    case_path("edit-roo", "cases.jsonl")
    names = {param.id for param in load_cases()}
    assert len(list(load_cases())) == 39
    assert set(DIFFERENT) <= names
