"""Models that talk instead of working, and models that say what is not so."""

import json
from dataclasses import replace
from typing import Any

from bestiary.rows import PLANNED, SHORT, TWICE, Theme
from bestiary.speech import FIX, Answer, Asked, Say, Send, both, done, fix, use, whole
from models.model_server import chunk, stream

WORDS = Theme("Words instead of work")
row = WORDS.row
AS_TEXT: dict[str, Any] = {"tool_transport": "text"}
PROSE = 'I will now call edit_file with path="calc.py", replacing "return a - b" by "return a + b".'
FENCED = (
    'Here is the call:\n\n```json\n{"name": "edit_file", "arguments": {"path": "calc.py", '
    '"old": "return a - b", "new": "return a + b"}}\n```\n'
)


@row(SHORT)
def calls_in_prose(asked: Asked) -> Answer:
    """Describes the call that it would make, and makes none."""
    return Say(PROSE)


@row(SHORT)
def calls_as_fenced_json(asked: Asked) -> Answer:
    """Writes the call as JSON in a code block."""
    return Say(FENCED)


@row(SHORT)
def calls_as_tags(asked: Asked) -> Answer:
    """Writes the call as <tool_call> tags in its text."""
    call = json.dumps({"name": "edit_file", "arguments": FIX})
    return Say(f"<tool_call>\n{call}\n</tool_call>")


@row(SHORT, model=AS_TEXT)
def calls_going_round_in_its_text(asked: Asked) -> Answer:
    """Writes the same two calls as text, over and over in one reply, without end."""
    calls = [("ls", "."), ("read_file", "calc.py")]
    lines = [json.dumps({"name": name, "arguments": {"path": path}}) + "\n" for name, path in calls]
    return Send(stream(chunk({"content": "".join(lines)}), done=False).encode(), ending="endless")


@row(SHORT, model=AS_TEXT)
def makes_up_the_results(asked: Asked) -> Answer:
    """Writes a call as text, makes up its result, and closes the stage because of it."""
    looks = json.dumps({"name": "run_tests", "arguments": {}})
    closes = json.dumps({"name": "stage_done", "arguments": {"stage": "work", "summary": "All tests pass."}})
    return Say(f"{looks}\n<tool_response>\n3 passed\n</tool_response>\n{closes}\n")


@row(TWICE)
def empty_replies(asked: Asked) -> Answer:
    """Answers with nothing at all."""
    return whole(Say()) if asked.number % 2 else Say()


@row(SHORT)
def whitespace_replies(asked: Asked) -> Answer:
    """Answers with spaces and line breaks."""
    return Say(" \n\t\n ")


@row(TWICE)
def apologises_for_ever(asked: Asked) -> Answer:
    """Answers every message with an apology."""
    return Say("I apologize for the confusion. You are right, let me do better this time.")


@row(SHORT)
def asks_for_permission(asked: Asked) -> Answer:
    """Asks whether it should continue, in a run that nobody watches."""
    return Say("Shall I go ahead and make the change to calc.py?")


@row(SHORT)
def refuses_the_task(asked: Asked) -> Answer:
    """Says that it cannot edit files."""
    return Say("I'm sorry, but as a language model I cannot edit files on your machine.")


@row(SHORT)
def reasons_without_end(asked: Asked) -> Answer:
    """Sends reasoning and never a reply."""
    return Say(reasoning=f"Let me think about this again, number {asked.number}. " * 20)


@row(SHORT)
def cut_off_in_its_text(asked: Asked) -> Answer:
    """Every reply ends at the length limit, in the middle of a sentence."""
    return Say("To mend add in calc.py, we must first consider", finish="length")


@row(SHORT)
def cut_off_in_its_arguments(asked: Asked) -> Answer:
    """Every call ends at the length limit, in the middle of its arguments."""
    reply = use("write_file", path="calc.py", content="def add(a, b):\n    return a + b\n" * 20)
    return replace(
        reply, calls=(replace(reply.calls[0], arguments=reply.calls[0].arguments[:90]),), finish="length"
    )


@row(TWICE)
def claims_without_a_change(asked: Asked) -> Answer:
    """Says that it is done and has changed nothing."""
    return done(asked, "Fixed the sign in add.", files_changed=["calc.py"])


@row(TWICE)
def claims_that_tests_pass(asked: Asked) -> Answer:
    """Says that it has run the tests, names a run, and has done neither."""
    return done(asked, "Ran the tests: 2 passed, 0 failed (run_20250101_000000_abcdef). Verified by run_1.")


@row()
def success_only_in_words(asked: Asked) -> Answer:
    """Congratulates itself, with the default budget of twelve verifications."""
    return Say("All done! The tests are green and the code is production-ready.")


@row(PLANNED)
def success_only_in_words_with_a_plan(asked: Asked) -> Answer:
    """Congratulates itself in every stage of a flow that checks each stage."""
    return Say("All done! The tests are green and the code is production-ready.")


@row(TWICE)
def changes_something_else(asked: Asked) -> Answer:
    """Changes a file that has nothing to do with the task, and says that it is done."""
    return (
        done(asked)
        if asked.answered or asked.final
        else use("write_file", path="notes.md", content="Fixed.\n")
    )


@row(SHORT)
def writes_a_report_about_it(asked: Asked) -> Answer:
    """Writes FIX_SUMMARY.md instead of a fix."""
    if asked.answered or asked.final:
        return done(asked)
    return use("write_file", path="FIX_SUMMARY.md", content="# Summary\n\nadd was fixed and verified.\n")


@row(SHORT)
def lists_files_it_never_touched(asked: Asked) -> Answer:
    """Fixes the bug, and claims changes to files that it never touched."""
    claimed = ["calc.py", "tests/test_calc.py", "vendor/lib.py", "docs/design.md"]
    return done(asked, "Rewrote everything.", files_changed=claimed) if asked.answered else fix()


@row(TWICE)
def hides_failure_in_success(asked: Asked) -> Answer:
    """Breaks the file so that it cannot be imported, and reports success."""
    return done(asked) if asked.answered or asked.final else use("edit_file", **{**FIX, "new": "return a +"})


@row(TWICE)
def says_and_does_at_once(asked: Asked) -> Answer:
    """Makes a wrong first edit and gives the closing signal in the same reply."""
    return (
        both(use("edit_file", **{**FIX, "new": "return b - a"}), done(asked))
        if asked.number == 1
        else done(asked)
    )


@row(SHORT, model={"context_window": 6_000}, files={"big.txt": "a line of no interest\n" * 20_000})
def floods_its_context_with_reads(asked: Asked) -> Answer:
    """Reads a file of half a megabyte, piece by piece, through a small context window."""
    return use("read_file", path="big.txt", start_line=asked.number * 500, end_line=asked.number * 500 + 400)


@row(SHORT, model={"context_window": 6_000})
def floods_its_context_with_words(asked: Asked) -> Answer:
    """Answers with forty thousand characters each time, through a small context window."""
    return both(
        Say(" ".join(f"word{asked.number}x{n}" for n in range(3_500))), use("read_file", path="calc.py")
    )


@row(SHORT)
def repeats_one_word(asked: Asked) -> Answer:
    """Falls into a repetition and sends the same words until the length limit."""
    return Say("the the the the " * 3_000)
