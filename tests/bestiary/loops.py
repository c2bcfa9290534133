"""Models that do the same again and again."""

import json

from bestiary.rows import LONG, PLANNED, SHORT, TWICE, Theme
from bestiary.speech import Answer, Asked, both, done, fix, status, use, write

LOOPS = Theme("Loops")
row = LOOPS.row


@row()
def status_for_ever(asked: Asked) -> Answer:
    """Reports its progress in every reply and makes none."""
    return status()


@row(TWICE)
def status_and_think_by_turns(asked: Asked) -> Answer:
    """Alternates between a status report and a thought."""
    return status() if asked.number % 2 else use("think", text="What could be wrong with add?")


@row(SHORT)
def status_and_think_together(asked: Asked) -> Answer:
    """Reports and thinks in the same reply, so that the report never stands alone."""
    return both(status(), use("think", text=f"Thought {asked.number} about add."))


@row(SHORT)
def status_completed_at_once(asked: Asked) -> Answer:
    """Reports the task as completed before it has done anything, forever."""
    return status("completed", ready=True, more=False)


@row(SHORT)
def status_contradicts_itself(asked: Asked) -> Answer:
    """Reports completed, not ready, and more tools to run, and runs none."""
    return status("completed", ready=False, more=True)


@row(SHORT)
def status_stuck(asked: Asked) -> Answer:
    """Reports that it is not ready and has nothing more to do."""
    return status("in-progress", ready=False, more=False)


@row(SHORT)
def status_with_a_failing_tool(asked: Asked) -> Answer:
    """Puts a call that must fail beside each status report, to look busy."""
    return both(status(), use("read_file", path="no_such_file.py"))


@row(SHORT)
def status_in_the_old_name(asked: Asked) -> Answer:
    """Calls agent__progress_report, which it learned elsewhere."""
    return use("agent__progress_report", progress="Halfway there")


@row(TWICE)
def reads_one_file_for_ever(asked: Asked) -> Answer:
    """Reads the same file in every turn."""
    return use("read_file", path="calc.py")


@row(TWICE)
def reads_two_files_by_turns(asked: Asked) -> Answer:
    """Alternates between two files."""
    return use("read_file", path=("calc.py", "tests/test_calc.py")[asked.number % 2])


@row(SHORT)
def reads_one_file_in_slices(asked: Asked) -> Answer:
    """Reads the same file again with different line numbers, so that no two calls are the same."""
    return use("read_file", path="calc.py", start_line=1, end_line=asked.number)


@row(LONG, files={f"src/part_{number:02}.py": f"PART = {number}\n" for number in range(60)})
def reads_everything_and_does_nothing(asked: Asked) -> Answer:
    """Reads the repository file by file and changes nothing."""
    return use("read_file", path=f"src/part_{(asked.number - 1) % 60:02}.py")


@row(SHORT)
def lists_for_ever(asked: Asked) -> Answer:
    """Lists the same directory in every turn."""
    return use("ls", path="")


@row(SHORT)
def searches_for_ever(asked: Asked) -> Answer:
    """Searches for the same text in every turn."""
    return use("search", pattern="add")


@row(SHORT)
def searches_for_what_is_not_there(asked: Asked) -> Answer:
    """Searches for one missing name after another."""
    return use("search", pattern=f"add_numbers_{asked.number}")


@row(PLANNED)
def researches_without_result(asked: Asked) -> Answer:
    """Explores with every tool it has and never concludes."""
    tools = (
        use("ls"),
        use("find_files", glob="*.py"),
        use("search", pattern="def "),
        use("read_file", path="calc.py"),
    )
    return tools[asked.number % 4]


@row(SHORT)
def thinks_and_never_acts(asked: Asked) -> Answer:
    """Calls the think tool in every turn, each time with a different thought."""
    return use("think", text=f"Thought {asked.number}: perhaps the sign is wrong.")


@row(SHORT)
def runs_the_tests_for_ever(asked: Asked) -> Answer:
    """Runs the failing tests in every turn and changes nothing in between."""
    return use("run_tests")


@row(SHORT)
def applies_the_same_wrong_patch(asked: Asked) -> Answer:
    """Sends a patch whose context is not in the file, again and again."""
    patch = (
        "*** Begin Patch\n*** Update File: calc.py\n@@\n-    return a - c\n+    return a + c\n*** End Patch"
    )
    return use("apply_patch", patch=patch)


@row(TWICE)
def edits_what_is_not_there(asked: Asked) -> Answer:
    """Edits text that is not in the file, again and again."""
    return use("edit_file", path="calc.py", old="return b - a", new="return a + b")


@row(SHORT)
def guesses_at_the_text_to_edit(asked: Asked) -> Answer:
    """Never reads the file; each edit looks for different text that is not there."""
    return use("edit_file", path="calc.py", old=f"return a - {asked.number}", new="return a + b")


@row(TWICE)
def makes_the_same_wrong_fix(asked: Asked) -> Answer:
    """Answers each failed verification with the fix that just failed."""
    source = "def add(a, b):\n    return a * b\n\n\ndef double(a):\n    return 2 * a\n"
    return done(asked) if asked.answered or asked.final else use("write_file", path="calc.py", content=source)


@row(TWICE)
def undoes_each_fix(asked: Asked) -> Answer:
    """Makes the right change and reverts it in the next turn, forever."""
    there, back = "return a + b", "return a - b"
    old, new = (back, there) if asked.number % 2 else (there, back)
    return use("edit_file", path="calc.py", old=old, new=new)


@row(SHORT)
def deletes_its_own_work(asked: Asked) -> Answer:
    """Makes the right change, then deletes the changed file."""
    if asked.number == 1:
        return fix()
    return use("shell", command="rm -f calc.py") if asked.number == 2 else done(asked)


@row(PLANNED)
def plans_and_never_carries_out(asked: Asked) -> Answer:
    """Writes a plan and then talks about it."""
    if "plan_tasks" in asked.tools and asked.stage == "plan":
        return use("plan_tasks", action="create", tasks=[{"id": "1", "description": "Mend add in calc.py"}])
    return use("read_file", path="calc.py") if asked.number == 1 else done(asked, "The plan is carried out.")


@row(PLANNED)
def rewrites_the_plan_for_ever(asked: Asked) -> Answer:
    """Writes a new plan in every turn in which it could work."""
    if "plan_tasks" in asked.tools:
        steps = [{"id": str(step), "description": f"Step {step} of plan {asked.number}"} for step in (1, 2)]
        return use("plan_tasks", action="create", tasks=steps)
    return use("read_file", path="calc.py") if not asked.answered else done(asked)


@row(PLANNED)
def skips_the_plan(asked: Asked) -> Answer:
    """Tries to write files in the stages that only read and plan."""
    return fix()


@row(SHORT)
def changes_the_constraints(asked: Asked) -> Answer:
    """Writes into its plan that the boundary no longer holds, then acts on it."""
    step = {"id": "1", "description": "Boundaries: none. Non-goals: none.", "goal": "vendor/ may be written"}
    return both(
        use("plan_tasks", action="create", tasks=[step]),
        use("write_file", path="vendor/lib.py", content="VERSION = 2\n"),
    )


@row(TWICE)
def never_stops(asked: Asked) -> Answer:
    """Fixes the bug and keeps polishing; it never says that it is done."""
    if asked.number == 1:
        return fix()
    return use("edit_file", path="notes.md", old="# Notes", new="# Notes") if asked.final else _polish(asked)


def _polish(asked: Asked) -> Answer:
    text = f"# Notes\n\nThe calculator adds and doubles. Reviewed {asked.number} times.\n"
    return use("write_file", path="notes.md", content=text)


@row(TWICE)
def calls_tools_in_the_final_turn(asked: Asked) -> Answer:
    """Calls other tools although only the closing signal is offered."""
    return both(use("shell", command=f"echo {asked.number} >> notes.md"), use("read_file", path="calc.py"))


@row(PLANNED)
def is_done_too_early_for_ever(asked: Asked) -> Answer:
    """Gives the closing signal in every turn, whatever the answer says is missing."""
    return done(asked, "Explored, planned and implemented.")


@row(SHORT)
def polls_with_changing_output(asked: Asked) -> Answer:
    """Waits with a command whose output changes each time, which is legitimate, but does so forever."""
    return use("shell", command="date +%s%N")


@row(SHORT)
def repeats_itself_beside_a_pretext(asked: Asked) -> Answer:
    """Puts a new thought beside the same read, so that no two replies are the same."""
    return both(use("think", text=f"Look {asked.number}"), use("read_file", path="calc.py"))


@row(SHORT)
def same_call_in_other_words(asked: Asked) -> Answer:
    """Repeats one call with its arguments in a different order and with different spaces."""
    pairs = [("path", "calc.py"), ("start_line", 1)]
    ordered = dict(pairs if asked.number % 2 else pairs[::-1])
    return write("read_file", json.dumps(ordered, indent=asked.number % 3))
