"""Models whose calls are not what they should be."""

import json
from dataclasses import replace

from bestiary.rows import Theme
from bestiary.server import Behave
from bestiary.speech import FIX, Answer, Asked, Call, Say, both, done, fix, use, work_and_claim, write

MALFORMED = Theme("Malformed calls")
row, add = MALFORMED.row, MALFORMED.add


add(
    "broken_arguments_for_ever",
    "The arguments of every call are not JSON.",
    write("edit_file", "path=calc.py, old=return a - b, new=return a + b"),
)


@row()
def broken_arguments_once(asked: Asked) -> Answer:
    """Gets the JSON wrong the first time and right the second time. This must do no harm."""
    if asked.number == 1:
        return write("edit_file", '{"path": "calc.py", "old": "return a - b", "new"')
    return work_and_claim(asked, fix()) if asked.number > 2 else fix()


@row()
def arguments_of_wrong_types(asked: Asked) -> Answer:
    """Passes lists for strings, strings for numbers, and null for required arguments."""
    wrong = (
        {"path": ["calc.py"]},
        {"path": None},
        {"path": {"name": "calc.py"}},
        {"path": "calc.py", "start_line": "x"},
    )
    return use("read_file", **wrong[asked.number % 4])


add(
    "arguments_that_are_no_object",
    "Passes a list, a number or a string where an object is required.",
    lambda asked: write("read_file", ("[]", "3", '"calc.py"', "null", "true")[asked.number % 5]),
)
add("arguments_without_the_required", "Leaves out required arguments.", write("edit_file", "{}"))


@row()
def unknown_tools(asked: Asked) -> Answer:
    """Calls tools that it learned elsewhere."""
    names = ("str_replace_editor", "bash\n", "view_file", "functions.read_file", "\ud83d")
    return use(names[asked.number % 5], path="calc.py")


add(
    "tools_without_a_name",
    "Calls a tool whose name is empty, or two thousand characters long.",
    lambda asked: use("" if asked.number % 2 else "read_file" * 222, path="calc.py"),
)
add(
    "deeply_nested_arguments",
    "Nests its arguments a hundred thousand levels deep.",
    write("read_file", '{"path":' + "[" * 100_000 + "]" * 100_000 + "}"),
)
add(
    "huge_arguments",
    "Writes a file of one megabyte in one call.",
    write("write_file", json.dumps({"path": "big.txt", "content": "0123456789abcdef" * 65_536})),
)


@row()
def huge_numbers(asked: Asked) -> Answer:
    """Asks for line 10^30, for line -1, and for a line that is not a number."""
    odd = ('{"path": "calc.py", "start_line": 1' + "0" * 30 + "}", '{"path": "calc.py", "start_line": -1}')
    return write("read_file", (*odd, '{"path": "calc.py", "end_line": NaN}')[asked.number % 3])


add(
    "a_hundred_calls_in_one_reply",
    "Puts a hundred calls into each reply.",
    Say(calls=tuple(Call("read_file", '{"path": "calc.py"}', f"c{n}") for n in range(100))),
)


@row()
def a_hundred_writes_in_one_reply(asked: Asked) -> Answer:
    """Writes the same file a hundred times in one reply, each time differently."""
    writes = [use("write_file", path="notes.md", content=f"Note {n}\n").calls[0] for n in range(100)]
    calls = tuple(replace(call, id=f"c{n}") for n, call in enumerate(writes))
    return done(asked) if asked.answered or asked.final else Say(calls=calls)


@row()
def duplicate_call_ids(asked: Asked) -> Answer:
    """Gives every call of the conversation the same id."""
    calls = tuple(
        replace(reply.calls[0], id="call_1") for reply in (use("ls"), use("read_file", path="calc.py"))
    )
    return Say(calls=calls)


@row()
def nul_characters(asked: Asked) -> Answer:
    """Puts NUL characters into paths, commands and patterns."""
    return both(
        use("read_file", path="calc.py\0.txt"),
        use("write_file", path="a\0b", content="x"),
        use("shell", command="echo a\0b"),
        use("search", pattern="a\0b"),
        use("find_files", glob="*\0"),
        use("ls", path="\0"),
    )


@row()
def lone_surrogates(asked: Asked) -> Answer:
    """Sends lone surrogates in its text, its arguments and its closing signal."""
    odd = "\ud83d half"
    work = both(
        use("think", text=odd), use("write_file", path="odd.txt", content=odd), use("read_file", path=odd)
    )
    return replace(done(asked, odd) if asked.answered else work, text=odd)


@row()
def control_characters(asked: Asked) -> Answer:
    """Sends terminal escapes in everything that a person might see."""
    odd = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x00\x08"
    return replace(done(asked, odd) if asked.answered else use("search", pattern=odd), text=odd)


add(
    "searches_with_broken_patterns",
    "Searches with invalid regular expressions, or with one that is too large.",
    lambda asked: use(
        "search", pattern=("(" * 500, "[", "a{99999}{99999}", "(?P<x>a)(?P<x>b)")[asked.number % 4]
    ),
)
add(
    "globs_that_take_for_ever",
    "Looks for files with a glob that a backtracking matcher cannot decide.",
    use("find_files", glob="*a" * 25 + "b"),
    files={"a" * 60: ""},
)


@row()
def odd_call_ids(asked: Asked) -> Answer:
    """Gives its calls ids that are lone surrogates, NUL, or ten thousand characters long."""
    ids = ("\ud83d", "\ud83e", "\0", "x" * 10_000, " ")
    return Say(calls=tuple(Call("read_file", '{"path": "calc.py"}', id) for id in ids))


@row()
def odd_paths(asked: Asked) -> Answer:
    """Names paths that no file system accepts."""
    paths = (
        "a" * 5_000,
        "",
        ".",
        "/",
        "~",
        "a/" * 2_000 + "b",
        "calc.py/x",
        "tests/",
        "..",
        "a\nb",
        "-rf",
        "C:\\x",
    )
    tools = ("read_file", "ls", "write_file")
    more = {"content": "x"} if asked.number % 3 == 2 else {}
    chosen = [path for path in paths if not more or path not in ("a\nb", "-rf", "C:\\x", "~")]
    return both(*(use(tools[asked.number % 3], path=path, **more) for path in chosen))


@row()
def odd_timeouts(asked: Asked) -> Answer:
    """Asks for a command timeout of zero, of forever, or of something that is not a number."""
    odd = ("0", "-1", "1e308", "NaN", "Infinity", '"soon"', "1" + "0" * 40)[asked.number % 7]
    return write("shell", f'{{"command": "true", "timeout": {odd}}}')


@row()
def absurd_patches(asked: Asked) -> Answer:
    """Sends text that is not a patch, or patches with absurd numbers."""
    begin, end = "*** Begin Patch", "*** End Patch"
    odd = (
        "",
        begin,
        f"{begin}\n{end}",
        f"{begin}\n*** Update File: calc.py\n{end}",
        f"{begin}\n*** Add File: calc.py\n+x\n{end}",
        "--- a/calc.py\n+++ b/calc.py\n@@ -999999999999999999999,1 +1,1 @@\n-x\n+y\n",
        f"{begin}\n*** Delete File: nothing.py\n{end}",
        "GIT binary patch\nliteral 0\n",
    )[asked.number % 8]
    return use("apply_patch", patch=odd)


@row()
def reads_devices(asked: Asked) -> Answer:
    """Reads devices that never end, or files outside the repository."""
    return both(
        *(
            use("read_file", path=path)
            for path in ("/dev/zero", "/dev/stdin", "/etc/passwd", "../../..", ".git")
        )
    )


add(
    "a_closing_signal_for_another_stage",
    "Closes a stage that does not exist.",
    use("stage_done", stage="deploy", summary="Deployed."),
)


@row()
def a_plan_without_end(asked: Asked) -> Answer:
    """Writes a plan of a thousand steps, then one whose steps all have the same id."""
    ids = range(1_000) if asked.number % 2 else [1] * 10
    return use("plan_tasks", action="create", tasks=[{"id": str(n), "description": "Do it"} for n in ids])


@row()
def edits_that_would_break_the_line_ends(asked: Asked) -> Answer:
    """Fixes the bug with Windows line endings and a byte order mark in the text to find."""
    work = use(
        "edit_file",
        **{
            **FIX,
            "old": "\ufeffdef add(a, b):\r\n    return a - b",
            "new": "def add(a, b):\r\n    return a + b",
        },
    )
    return work_and_claim(asked, work)


def _closing_with(value: str) -> Behave:
    def behave(asked: Asked) -> Answer:
        arguments = f'{{"stage": "{asked.stage}", "summary": "ok", "metadata": {{"x": {value}}}}}'
        return write("stage_done", arguments)

    return behave


for odd, (held, value) in {
    "deep": ("lists nested 400 levels deep", "[" * 400 + "]" * 400),
    "huge": ("a number of 41 digits", "1" + "0" * 40),
    "endless": ("a number that is too large for a float", "1e999"),
    "halved": ("lone surrogates", '{"\\ud83d": "\\ud83d"}'),
    "nul": ("a NUL character", '"\\u0000"'),
}.items():
    MALFORMED.add(
        f"{odd}_metadata", f"Closes its stage with metadata that contains {held}.", _closing_with(value)
    )
