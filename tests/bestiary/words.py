"""Models that talk instead of working, and models that say what is not so."""

import json
from dataclasses import replace
from typing import Any

from bestiary.rows import PLANNED, TWICE, Theme
from bestiary.speech import FIX, Answer, Asked, Say, Send, both, done, fix, use, whole
from models.model_server import chunk, stream

WORDS = Theme("Words instead of work")
row, add = WORDS.row, WORDS.add
AS_TEXT: dict[str, Any] = {"tool_transport": "text"}
PROSE = 'I will now call edit_file with path="calc.py", replacing "return a - b" by "return a + b".'
FENCED = (
    'Here is the call:\n\n```json\n{"name": "edit_file", "arguments": {"path": "calc.py", '
    '"old": "return a - b", "new": "return a + b"}}\n```\n'
)


add("calls_in_prose", "Describes the call that it would make, and makes none.", Say(PROSE))
add("calls_as_fenced_json", "Writes the call as JSON in a code block.", Say(FENCED))


@row()
def calls_as_tags(asked: Asked) -> Answer:
    """Writes the call as <tool_call> tags in its text."""
    call = json.dumps({"name": "edit_file", "arguments": FIX})
    return Say(f"<tool_call>\n{call}\n</tool_call>")


@row(model=AS_TEXT)
def calls_going_round_in_its_text(asked: Asked) -> Answer:
    """Writes the same two calls as text, over and over in one reply, without end."""
    calls = [("ls", "."), ("read_file", "calc.py")]
    lines = [json.dumps({"name": name, "arguments": {"path": path}}) + "\n" for name, path in calls]
    return Send(stream(chunk({"content": "".join(lines)}), done=False).encode(), ending="endless")


@row(model=AS_TEXT)
def makes_up_the_results(asked: Asked) -> Answer:
    """Writes a call as text, makes up its result, and closes the stage because of it."""
    looks = json.dumps({"name": "run_tests", "arguments": {}})
    closes = json.dumps({"name": "stage_done", "arguments": {"stage": "work", "summary": "All tests pass."}})
    return Say(f"{looks}\n<tool_response>\n3 passed\n</tool_response>\n{closes}\n")


add(
    "empty_replies",
    "Answers with nothing at all.",
    lambda asked: whole(Say()) if asked.number % 2 else Say(),
    TWICE,
)
add("whitespace_replies", "Answers with spaces and line breaks.", Say(" \n\t\n "))
add(
    "apologises_for_ever",
    "Answers every message with an apology.",
    Say("I apologize for the confusion. You are right, let me do better this time."),
    TWICE,
)
add(
    "asks_for_permission",
    "Asks whether it should continue, in a run that nobody watches.",
    Say("Shall I go ahead and make the change to calc.py?"),
)
add(
    "refuses_the_task",
    "Says that it cannot edit files.",
    Say("I'm sorry, but as a language model I cannot edit files on your machine."),
)
add(
    "reasons_without_end",
    "Sends reasoning and never a reply.",
    lambda asked: Say(reasoning=f"Let me think about this again, number {asked.number}. " * 20),
)
add(
    "cut_off_in_its_text",
    "Every reply ends at the length limit, in the middle of a sentence.",
    Say("To mend add in calc.py, we must first consider", finish="length"),
)


@row()
def cut_off_in_its_arguments(asked: Asked) -> Answer:
    """Every call ends at the length limit, in the middle of its arguments."""
    reply = use("write_file", path="calc.py", content="def add(a, b):\n    return a + b\n" * 20)
    return replace(
        reply, calls=(replace(reply.calls[0], arguments=reply.calls[0].arguments[:90]),), finish="length"
    )


add(
    "claims_without_a_change",
    "Says that it is done and has changed nothing.",
    lambda asked: done(asked, "Fixed the sign in add.", files_changed=["calc.py"]),
    TWICE,
)
add(
    "claims_that_tests_pass",
    "Says that it has run the tests, names a run, and has done neither.",
    lambda asked: done(
        asked, "Ran the tests: 2 passed, 0 failed (run_20250101_000000_abcdef). Verified by run_1."
    ),
    TWICE,
)
add(
    "success_only_in_words",
    "Congratulates itself, with the default budget of twelve verifications.",
    Say("All done! The tests are green and the code is production-ready."),
    "flat",
)
add(
    "success_only_in_words_with_a_plan",
    "Congratulates itself in every stage of a flow that checks each stage.",
    Say("All done! The tests are green and the code is production-ready."),
    PLANNED,
)
add(
    "changes_something_else",
    "Changes a file that has nothing to do with the task, and says that it is done.",
    lambda asked: (
        done(asked)
        if asked.answered or asked.final
        else use("write_file", path="notes.md", content="Fixed.\n")
    ),
    TWICE,
)


@row()
def writes_a_report_about_it(asked: Asked) -> Answer:
    """Writes FIX_SUMMARY.md instead of a fix."""
    if asked.answered or asked.final:
        return done(asked)
    return use("write_file", path="FIX_SUMMARY.md", content="# Summary\n\nadd was fixed and verified.\n")


@row()
def lists_files_it_never_touched(asked: Asked) -> Answer:
    """Fixes the bug, and claims changes to files that it never touched."""
    claimed = ["calc.py", "tests/test_calc.py", "vendor/lib.py", "docs/design.md"]
    return done(asked, "Rewrote everything.", files_changed=claimed) if asked.answered else fix()


add(
    "hides_failure_in_success",
    "Breaks the file so that it cannot be imported, and reports success.",
    lambda asked: (
        done(asked) if asked.answered or asked.final else use("edit_file", **{**FIX, "new": "return a +"})
    ),
    TWICE,
)
add(
    "says_and_does_at_once",
    "Makes a wrong first edit and gives the closing signal in the same reply.",
    lambda asked: (
        both(use("edit_file", **{**FIX, "new": "return b - a"}), done(asked))
        if asked.number == 1
        else done(asked)
    ),
    TWICE,
)
add(
    "floods_its_context_with_reads",
    "Reads a file of half a megabyte, piece by piece, through a small context window.",
    lambda asked: use(
        "read_file", path="big.txt", start_line=asked.number * 500, end_line=asked.number * 500 + 400
    ),
    model={"context_window": 6_000},
    files={"big.txt": "a line of no interest\n" * 20_000},
)
add(
    "floods_its_context_with_words",
    "Answers with forty thousand characters each time, through a small context window.",
    lambda asked: both(
        Say(" ".join(f"word{asked.number}x{n}" for n in range(3_500))), use("read_file", path="calc.py")
    ),
    model={"context_window": 6_000},
)
add(
    "repeats_one_word",
    "Falls into a repetition and sends the same words until the length limit.",
    Say("the the the the " * 3_000),
)
