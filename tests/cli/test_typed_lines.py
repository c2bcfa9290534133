"""The pure parts of the interactive mode: lines, pasted text, commands, endings, completion, history."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from headgate.cli.endings import describe_usage, last_lines
from headgate.cli.interactive.completion import MOST_OFFERED, find_paths
from headgate.cli.interactive.kept_lines import MOST_LINES, Answers, KeptLines, looks_secret
from headgate.cli.interactive.saved_commands import load_commands
from headgate.cli.interactive.typed_lines import (
    PastedTexts,
    Typed,
    find_misplaced,
    goes_on,
    join_lines,
    read_line,
)
from headgate.cli.task_text import FIX_OUTPUT, TaskInput
from headgate.core import State, UsageLine
from headgate.errors import ConfigError
from headgate.log import Report, build_report


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("", None),
        (" \n ", None),
        (" Fix it \n", Typed("text", "Fix it")),
        ("/diff", Typed("command", "diff")),
        ("/Show  t3 \n", Typed("command", "show", "t3")),
        ("/ask one\ntwo", Typed("command", "ask", "one\ntwo")),
        ("//etc is wrong", Typed("text", "/etc is wrong")),
        ("/etc/hosts is wrong", Typed("text", "/etc/hosts is wrong")),
        ("/", Typed("text", "/")),
        ("/ x", Typed("text", "/ x")),
        ("exit", Typed("command", "quit")),
        ("Quit()", Typed("command", "quit")),
        ("/q now", Typed("command", "quit", "now")),
        ("quit the loop early", Typed("text", "quit the loop early")),
        ("!git status ", Typed("shell", "git status")),
        ("!", Typed("shell", "")),
        ("!!important", Typed("text", "!important")),
    ],
)
def test_what_a_line_means(line: str, meaning: object) -> None:
    assert read_line(line) == meaning


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("headgate", ""),
        ('headgate run "Fix it"', "Fix it"),
        ("headgate submit Don't do it", "Don't do it"),
        ("headgate show t1", "/show t1"),
        ("headgate doctor", ""),
        ("headgate run --dry-run 'x'", ""),
        ("headgate --version", ""),
        ("Undo", "/undo"),
        ("/", "/"),
        ("ls", "!ls"),
        ("git status", "!git status"),
        ("git status shows no branch", None),
        ("yes", None),
        ("headgate crashes without git", None),
        ("undo the last commit's rename", None),
        ("refactor", None),
    ],
)
def test_lines_that_were_meant_as_commands(line: str, instead: str | None) -> None:
    found = find_misplaced(line, {"show", "undo", "ask"}, {"run", "submit", "show", "doctor"})
    assert (found and found.instead) == instead


@pytest.mark.parametrize(
    ("text", "more"),
    [("a", False), ("a\\", True), ("```py", True), ("```\nx\n```", False), ("a ``` b", False), ("", False)],
)
def test_what_goes_on(text: str, more: bool) -> None:
    assert goes_on(text) == more


def test_the_backslash_becomes_the_line_break() -> None:
    assert (join_lines("a\\"), join_lines("```")) == ("a\n", "```\n")


def test_a_short_paste_is_shown_and_a_long_one_is_named() -> None:
    pasted = PastedTexts()
    assert pasted.shorten("a\r\nb") == "a\nb"
    long = "\n".join(map(str, range(212)))
    assert pasted.shorten(long) == "[pasted 212 lines]"
    assert pasted.shorten(long.upper()) == "[pasted 212 lines, 2]"
    assert pasted.shorten("x" * 5000) == "[pasted 5000 characters]"
    assert pasted.expand("Fix [pasted 212 lines] now") == f"Fix\n{long}\nnow"
    assert pasted.expand("[pasted 3 lines]") == "[pasted 3 lines]"


def test_pasted_output_is_attached_and_pasted_words_are_not() -> None:
    pasted, told = PastedTexts(), list[str]()
    log = "\n".join(["Constraints:", "- x < 3", *(f"a.c:{number}:1: error: no" for number in range(9))])
    words = "\n".join(["Make the login faster.", "", "Constraints:", *(f"- keep {name}" for name in "abcd")])
    output, request = pasted.shorten(log), pasted.shorten(words)
    assert (output, request) == ("[pasted 11 lines]", "[pasted 7 lines]")
    given = pasted.read(f"Fix {output}, then {request}", told.append)
    assert given == TaskInput(f"Fix {output}, then\n{words}", log)
    assert told == ["[pasted 11 lines] is the output of a program and is attached."]
    assert pasted.read(request, told.append) == TaskInput(words)
    failing = pasted.shorten(log.removeprefix("Constraints:\n- x < 3\n"))
    assert pasted.read(f" {failing} ", told.append).text == FIX_OUTPUT
    both = pasted.read(f"Compare {output} with {failing}", told.append)
    assert both.attached.startswith("[pasted 11 lines]\nConstraints:\n")
    assert "\n\n[pasted 9 lines]\na.c:0:1: error" in both.attached
    with pytest.raises(ConfigError, match="in which nothing failed: say what to do"):
        pasted.read(pasted.shorten(f"{'.' * 1_000}\n3 passed in 0.1s"), told.append)


def write(folder: Path, name: str, text: str | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def test_saved_commands(tmp_path: Path) -> None:
    own, user = tmp_path / "repo" / ".headgate" / "commands", tmp_path / "user"
    write(
        own,
        "review.md",
        "---\ndescription: Review  a file.\n---\nReview $1, $2 and $9: $ARGUMENTS. $10 $1x\n",
    )
    write(own, "plain.md", "Do it.\n")
    write(user, "plain.md", "Do something else.\n")
    write(user, "mine.md", "Mine.\n")
    found = load_commands(tmp_path / "repo", user, {"show"})
    assert found.problems == ()
    assert {name: (one.description, one.by_repository) for name, one in found.found.items()} == {
        "mine": ("Mine.", False),
        "plain": ("Do it.", True),
        "review": ("Review a file.", True),
    }
    assert found.found["review"].fill("$2 b") == "Review $2, b and : $2 b. $10 $2x"
    assert found.found["plain"].fill("") == "Do it."
    assert found.found["plain"].fill("Now.") == "Do it.\n\nNow."


def test_files_that_are_no_commands_are_explained(tmp_path: Path) -> None:
    own = tmp_path / ".headgate" / "commands"
    write(tmp_path, "secret.txt", "secret")
    for name, text in {
        "Bad Name.md": "x",
        "show.md": "x",
        "empty.md": "---\ndescription: x\n---\n",
        "latin.md": b"\xe4",
        "large.md": "x" * 200_000,
        "front.md": "---\nx: [\n---\nx",
        "notes.txt": "x",
    }.items():
        write(own, name, text)
    (own / "link.md").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(own / "pipe.md")
    found = load_commands(tmp_path, tmp_path / "none", {"show"})
    assert found.found == {}
    assert len(found.problems) == 8
    assert (
        ".headgate/commands/show.md is left out: /show is built in. Give the file another name."
        in found.problems
    )


def test_a_linked_folder_has_no_commands(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "x.md", "x")
    (tmp_path / ".headgate").mkdir()
    (tmp_path / ".headgate" / "commands").symlink_to(tmp_path / "elsewhere")
    assert load_commands(tmp_path, tmp_path / "none", ()).found == {}


def report(**fields: Any) -> Report:
    usual = {"state": "SUCCESS", "model": "m", "summary": "It.", "task_id": "t3"}
    return build_report(State()).model_copy(update={**usual, **fields})


CHANGED = {"files_changed": ("a.py",)}
WORKTREE = {"worktree": ".headgate/worktrees/t3", "branch": "headgate/t3", "state": "STUCK"}
CONTINUES = "What you type next continues from here."


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (CHANGED, ["It.", "/diff shows the changes; /undo undoes them.", "/show shows every step."]),
        ({"answer": "In a.py."}, ["In a.py.", "", "It.", "/show shows every step."]),
        ({"state": "STUCK"}, ["It.", "/show shows every step.", CONTINUES]),
        ({"state": "CANCELLED", "model": ""}, ["It.", "Task t3 was cancelled before it started.", CONTINUES]),
        ({"state": "QUEUED"}, ["Task t3 is still queued."]),
        (
            {"state": "PROPOSED", **CHANGED},
            ["It.", "/diff shows it; /apply writes and verifies it; /abort discards it."],
        ),
        (
            {"state": "PROPOSED", "conflicts": ("a.py: no",)},
            [
                "The working tree has changed, and the proposal no longer applies. Nothing was written.",
                "  a.py: no",
                "/diff shows the proposal; /abort discards it.",
            ],
        ),
        (
            WORKTREE,
            [
                "It.",
                "The changes are in .headgate/worktrees/t3, on the branch headgate/t3.",
                "/diff shows them; /apply writes them to your own tree; "
                "/abort removes the worktree and the branch.",
                CONTINUES,
            ],
        ),
    ],
)
def test_how_a_task_ended_at_the_prompt(fields: dict[str, Any], lines: list[str]) -> None:
    assert last_lines(report(**fields), at_prompt=True) == lines


def test_what_tasks_have_used() -> None:
    line = UsageLine(stage="work", model="m", requests=1, sent=12_300, cached=8_000, generated=900, cost=None)
    assert describe_usage([line]) == "1 request, 12,300 tokens sent (8,000 cached), 900 generated"
    guessed = line.model_copy(update={"cost": 0.5, "estimated": True, "cached": 0})
    assert describe_usage([guessed, guessed]) == (
        "2 requests, ~24,600 tokens sent, ~1,800 generated, cost ~1.00"
    )


def test_paths_to_offer() -> None:
    paths = ["README.md", "docs/parse.md", "src/parser.py", "src/lib/old_parser.py", "par.txt"]
    assert find_paths(paths, "PAR", anywhere=True) == [
        *("par.txt", "docs/parse.md", "src/parser.py", "src/lib/old_parser.py")
    ]
    assert find_paths(paths, "s", anywhere=False) == ["src/"]
    assert find_paths(paths, "src/", anywhere=False) == ["src/parser.py", "src/lib/"]
    assert len(find_paths([f"f{number}" for number in range(50_000)], "f", anywhere=True)) == MOST_OFFERED


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Use the key sk-proj-abcdefghijklmnop1234", True),
        ("the password is hunter2", True),
        ("API_KEY=abc", True),
        ("clone https://me:pw@example.org/x", True),
        ("it says S3CR3TVALUE", True),
        ("Fix the token parser", False),
        ("Rename the secret santa page", False),
    ],
)
def test_what_looks_secret(text: str, secret: bool) -> None:
    assert looks_secret(text, {"MY_TOKEN": "S3CR3TVALUE", "HOME": "/home/x"}) == secret


def test_history_is_kept_within_bounds(tmp_path: Path) -> None:
    kept = KeptLines(tmp_path, tmp_path / "repo", {})
    kept.expand = lambda line: {"[two]": "two\nlines", "[key]": "token=abc"}.get(line, line)
    for line in ("one", "[two]", "[key]", "x" * 20_000):
        kept.append_string(line)
    assert kept.get_strings()[-2] == "[key]"
    (file,) = (tmp_path / "history").iterdir()
    file.write_bytes(file.read_bytes() + b'"cut of')
    again = KeptLines(tmp_path, tmp_path / "repo", {})
    assert list(again.load_history_strings()) == ["two\nlines", "one"]
    file.write_text('"line"\n' * (3 * MOST_LINES))
    assert len(list(again.load_history_strings())) == MOST_LINES
    assert (len(file.read_bytes().splitlines()), stat.S_IMODE(file.stat().st_mode)) == (MOST_LINES, 0o600)


def test_a_state_folder_that_cannot_be_used_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("")
    kept = KeptLines(tmp_path, tmp_path, {})
    kept.append_string("one")
    assert list(KeptLines(tmp_path, tmp_path, {}).load_history_strings()) == []


def test_answers_are_kept_for_each_repository(tmp_path: Path) -> None:
    Answers(tmp_path, Path("/a")).add("x")
    Answers(tmp_path, Path("/a")).add("y")
    assert [Answers(tmp_path, Path("/a")).has(what) for what in ("x", "y", "z")] == [True, True, False]
    assert not Answers(tmp_path, Path("/b")).has("x")
