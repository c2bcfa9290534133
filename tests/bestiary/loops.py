"""Models that do the same again and again."""

import json

from bestiary.rows import LONG, PLANNED, TWICE, Theme
from bestiary.speech import Answer, Asked, both, done, fix, status, use, write

LOOPS = Theme("Loops")
row, add = LOOPS.row, LOOPS.add


add("status_for_ever", "Reports its progress in every reply and makes none.", status(), "flat")
add(
    "status_and_think_by_turns",
    "Alternates between a status report and a thought.",
    lambda asked: status() if asked.number % 2 else use("think", text="What could be wrong with add?"),
    TWICE,
)
add(
    "status_and_think_together",
    "Reports and thinks in the same reply, so that the report never stands alone.",
    lambda asked: both(status(), use("think", text=f"Thought {asked.number} about add.")),
)
add(
    "status_completed_at_once",
    "Reports the task as completed before it has done anything, forever.",
    status("completed", ready=True, more=False),
)
add(
    "status_contradicts_itself",
    "Reports completed, not ready, and more tools to run, and runs none.",
    status("completed", ready=False, more=True),
)
add(
    "status_stuck",
    "Reports that it is not ready and has nothing more to do.",
    status("in-progress", ready=False, more=False),
)
add(
    "status_with_a_failing_tool",
    "Puts a call that must fail beside each status report, to look busy.",
    both(status(), use("read_file", path="no_such_file.py")),
)
add(
    "status_in_the_old_name",
    "Calls agent__progress_report, which it learned elsewhere.",
    use("agent__progress_report", progress="Halfway there"),
)
add("reads_one_file_for_ever", "Reads the same file in every turn.", use("read_file", path="calc.py"), TWICE)
add(
    "reads_two_files_by_turns",
    "Alternates between two files.",
    lambda asked: use("read_file", path=("calc.py", "tests/test_calc.py")[asked.number % 2]),
    TWICE,
)
add(
    "reads_one_file_in_slices",
    "Reads the same file again with different line numbers, so that no two calls are the same.",
    lambda asked: use("read_file", path="calc.py", start_line=1, end_line=asked.number),
)
add(
    "reads_everything_and_does_nothing",
    "Reads the repository file by file and changes nothing.",
    lambda asked: use("read_file", path=f"src/part_{(asked.number - 1) % 60:02}.py"),
    LONG,
    files={f"src/part_{number:02}.py": f"PART = {number}\n" for number in range(60)},
)
add("lists_for_ever", "Lists the same directory in every turn.", use("ls", path=""))
add("searches_for_ever", "Searches for the same text in every turn.", use("search", pattern="add"))
add(
    "searches_for_what_is_not_there",
    "Searches for one missing name after another.",
    lambda asked: use("search", pattern=f"add_numbers_{asked.number}"),
)


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


add(
    "thinks_and_never_acts",
    "Calls the think tool in every turn, each time with a different thought.",
    lambda asked: use("think", text=f"Thought {asked.number}: perhaps the sign is wrong."),
)
add(
    "runs_the_tests_for_ever",
    "Runs the failing tests in every turn and changes nothing in between.",
    use("run_tests"),
)


@row()
def applies_the_same_wrong_patch(asked: Asked) -> Answer:
    """Sends a patch whose context is not in the file, again and again."""
    patch = (
        "*** Begin Patch\n*** Update File: calc.py\n@@\n-    return a - c\n+    return a + c\n*** End Patch"
    )
    return use("apply_patch", patch=patch)


add(
    "edits_what_is_not_there",
    "Edits text that is not in the file, again and again.",
    use("edit_file", path="calc.py", old="return b - a", new="return a + b"),
    TWICE,
)
add(
    "guesses_at_the_text_to_edit",
    "Never reads the file; each edit looks for different text that is not there.",
    lambda asked: use("edit_file", path="calc.py", old=f"return a - {asked.number}", new="return a + b"),
)


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


@row()
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


add("skips_the_plan", "Tries to write files in the stages that only read and plan.", fix(), PLANNED)


@row()
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


add(
    "calls_tools_in_the_final_turn",
    "Calls other tools although only the closing signal is offered.",
    lambda asked: both(
        use("shell", command=f"echo {asked.number} >> notes.md"), use("read_file", path="calc.py")
    ),
    TWICE,
)
add(
    "is_done_too_early_for_ever",
    "Gives the closing signal in every turn, whatever the answer says is missing.",
    lambda asked: done(asked, "Explored, planned and implemented."),
    PLANNED,
)
add(
    "polls_with_changing_output",
    "Waits with a command whose output changes each time, which is legitimate, but does so forever.",
    use("shell", command="date +%s%N"),
)
add(
    "repeats_itself_beside_a_pretext",
    "Puts a new thought beside the same read, so that no two replies are the same.",
    lambda asked: both(use("think", text=f"Look {asked.number}"), use("read_file", path="calc.py")),
)


@row()
def same_call_in_other_words(asked: Asked) -> Answer:
    """Repeats one call with its arguments in a different order and with different spaces."""
    pairs = [("path", "calc.py"), ("start_line", 1)]
    ordered = dict(pairs if asked.number % 2 else pairs[::-1])
    return write("read_file", json.dumps(ordered, indent=asked.number % 3))
