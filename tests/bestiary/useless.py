"""Models of which no call ever succeeds, in each built-in flow: they end within thirty requests."""

import shlex
import sys
from dataclasses import replace

from bestiary.loops import LOOPS
from bestiary.malformed import MALFORMED
from bestiary.rows import Row
from bestiary.servers import SERVERS
from bestiary.speech import Answer, Asked, both, status, use, write
from bestiary.words import WORDS

TITLE = "Never usable, in the built-in flows"
FLOWS = ("flat", "staged", "staged3", "branched", "repair", "planned")
UNITTEST = f"{shlex.quote(sys.executable)} -B -m unittest discover -s tests -t ."
REPAIRED = {
    "tests/__init__.py": "",
    "tests/test_calc.py": (
        "import unittest\n\nfrom calc import add, double\n\n\nclass Sums(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n"
        "    def test_double(self):\n        self.assertEqual(double(2), 4)\n"
    ),
}
"""Tests that tell `repair` which lines to suspect; without suspects, it is `staged`."""
NAMES = """
empty_replies whitespace_replies apologises_for_ever asks_for_permission refuses_the_task
reasons_without_end calls_in_prose cut_off_in_its_text cut_off_in_its_arguments claims_without_a_change
claims_that_tests_pass success_only_in_words repeats_one_word status_for_ever status_and_think_by_turns
status_and_think_together status_completed_at_once status_contradicts_itself status_stuck
status_with_a_failing_tool status_in_the_old_name thinks_and_never_acts applies_the_same_wrong_patch
edits_what_is_not_there guesses_at_the_text_to_edit is_done_too_early_for_ever broken_arguments_for_ever
arguments_of_wrong_types arguments_that_are_no_object arguments_without_the_required unknown_tools
tools_without_a_name deeply_nested_arguments huge_arguments reads_devices a_closing_signal_for_another_stage
deep_metadata context_overflow_for_ever http_413_for_ever choices_of_wrong_types stream_that_never_ends
stream_of_ever_new_calls
"""
FIRST = "First I will think about the task."


def status_beside_broken_arguments(asked: Asked) -> Answer:
    """Puts a status report beside each call whose arguments are wrong."""
    return both(status(), write("edit_file", f'{{"path": {asked.number}}}'))


def thought_beside_broken_arguments(asked: Asked) -> Answer:
    """Puts a thought beside each call whose arguments are wrong."""
    return both(
        use("think", text=f"{FIRST} {asked.number}"), write("edit_file", f'{{"path": {asked.number}}}')
    )


def thought_between_wrong_edits(asked: Asked) -> Answer:
    """Thinks, then edits text that is not there, each time different text."""
    if asked.number % 2:
        return use("think", text=f"{FIRST} {asked.number}")
    return use("edit_file", path="calc.py", old=f"return a - {asked.number}", new="return a + b")


def plan_between_wrong_edits(asked: Asked) -> Answer:
    """Writes a plan, then edits text that is not there, each time different text."""
    if asked.number % 2 and "plan_tasks" in asked.tools:
        return use("plan_tasks", action="create", tasks=[{"id": "1", "description": f"Try {asked.number}"}])
    return use("edit_file", path="calc.py", old=f"return a - {asked.number}", new="return a + b")


def reads_files_that_are_not_there(asked: Asked) -> Answer:
    """Reads one missing file after another, with a status report beside each."""
    return both(status(), use("read_file", path=f"src/part_{asked.number}.py"))


_KNOWN = {row.name: row for theme in (WORDS, LOOPS, MALFORMED, SERVERS) for row in theme.rows}
_OWN = (
    status_beside_broken_arguments,
    thought_beside_broken_arguments,
    thought_between_wrong_edits,
    plan_between_wrong_edits,
    reads_files_that_are_not_there,
)
BEHAVIOURS = {name: _KNOWN[name] for name in NAMES.split()} | {
    behave.__name__: Row(behave.__name__, TITLE, " ".join((behave.__doc__ or "").split()), behave, "")
    for behave in _OWN
}


def _in_flow(row: Row, flow: str) -> Row:
    """The same model in a built-in flow as it is."""
    row = replace(row, name=f"{row.name}_{flow}", theme=TITLE, flow=flow, useless=True)
    if flow != "repair":
        return row
    steps = {"verification": {"steps": [{"name": "tests", "command": UNITTEST, "timeout": 30}]}}
    return replace(row, files={**row.files, **REPAIRED}, settings={**row.settings, **steps})


USELESS = {
    row.name: row
    for behaviour in BEHAVIOURS.values()
    for row in (_in_flow(behaviour, flow) for flow in FLOWS)
}
"""Each of them in each flow, under names such as `empty_replies_flat`."""
