"""Saying something to a task, and following up on one, with real processes and real terminals."""

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path

import pytest
from command import headgate
from processes import HEADGATE, call, ended, line_with, reports, start, states, step, terminal, until
from prompt_terminal import ALT_ENTER, CTRL_C, CTRL_D, prompt_terminal

WAITS = "touch started; while [ ! -e go ]; do sleep 0.02; done"


def gated(*expected: str) -> str:
    """A script that begins (`started`), goes on when the file `go` is there, and must have been told this."""
    words = json.dumps(expected)
    return f'- calls: [{{shell: {{command: "{WAITS}"}}}}]\n- text: Done.\n  expect: {{last: {words}}}\n'


async def test_a_line_from_another_process_is_read_before_the_next_turn(repo: Path) -> None:
    (repo / "script.yaml").write_text(gated("- Use tabs."))
    run = await start(repo, "run", "x")
    await until((repo / "started").exists)
    assert (await call(repo, "say", "Use tabs."))[:2] == (0, "Task t1 reads it before its next turn.\n")
    (repo / "go").touch()
    _, err = await ended(run)
    assert run.returncode == 0, err
    assert "] You: Use tabs.\n" in err.decode()
    assert reports(repo)[0]["unread"] == []


async def test_a_line_from_standard_input_for_a_queued_task(repo: Path) -> None:
    (repo / "script.yaml").write_text(
        '- calls: [{ls: {}}]\n  expect: {seen: "- first\\n  second"}\n- text: Done.\n'
    )
    assert headgate(repo, "submit", "--no-start", "x").stdout == "t1\n"
    said = headgate(repo, "say", "T1", "-", stdin="first\n  second\n")
    assert (said.returncode, said.stdout) == (0, "Task t1 starts with it.\n")
    assert headgate(repo, "run", "--resume", "t1").returncode == 0


@pytest.mark.parametrize(
    ("words", "stdin", "problem"),
    [
        (
            ["t1", "Hello"],
            "",
            "Task t1 has ended (SUCCESS): headgate run --follow t1 TEXT starts a follow-up.",
        ),
        (
            ["Hello"],
            "",
            "No task is running: name the queued one that is meant, such as headgate say t2 TEXT.",
        ),
        (["t9", "Hello"], "", 'There is no task "t9": the latest is t2.'),
        (["t2", " \n"], "", "There is nothing to say: give a text."),
        (
            ["t2", "x" * 20_001],
            "",
            "What you say has 20,001 characters and may have 20,000: put it into a file",
        ),
        (["t2", "\udcff"], "", "What you say is not UTF-8 text."),
        (["t2"], "", 'Say something: headgate say "..."'),
        ([], "", 'Say something: headgate say "..."'),
        (["t2", "two", "words"], "", 'Put the text in quotes: headgate say "..."'),
    ],
)
def test_what_cannot_be_said(repo: Path, words: list[str], stdin: str, problem: str) -> None:
    headgate(repo, "run", "x")
    headgate(repo, "submit", "--no-start", "y")
    said = headgate(repo, "say", *words, stdin=stdin)
    assert (said.returncode, said.stdout) == (2, "")
    assert problem in " ".join(said.stderr.split())
    assert "Traceback" not in said.stderr


def test_without_a_store_nothing_is_created(repo: Path) -> None:
    for words in (["say", "Hello"], ["run", "--follow", "last", "x"], ["ask", "--follow", "t1", "x"]):
        refused = headgate(repo, *words)
        assert (refused.returncode, "no tasks yet" in refused.stderr) == (2, True), refused.stderr
    assert not (repo / ".headgate").exists()


async def test_a_model_cannot_speak_for_the_user(repo: Path) -> None:
    speak = f"{HEADGATE[0]} -m headgate say t1 Anything; echo code $?"
    lines = ("A command of a task cannot act for the user", "code 2")
    script = f"- calls: [{{shell: {{command: {json.dumps(speak)}}}}}]\n- text: Done.\n"
    (repo / "script.yaml").write_text(f"{script}  expect: {{last: {json.dumps(lines)}}}\n")
    code, _, err = await call(repo, "run", "x", PYTHONPATH=str(Path(__file__).parents[2] / "src"))
    assert code == 0, err
    assert "You:" not in err


TWO_GATES = """
- calls: [{shell: {command: "touch started; while [ ! -e go ]; do sleep 0.02; done"}}]
- calls: [{write_file: {path: agent.yaml, content: "model: x\\n"}}]
- calls: [{shell: {command: "while [ ! -e on ]; do sleep 0.02; done"}}]
- text: Done.
"""


async def test_a_line_typed_while_watching(repo: Path) -> None:
    (repo / "script.yaml").write_text(gated("- Use tabs. \u00fc", "- and\n  more"))
    await call(repo, "submit", "x")
    await until((repo / "started").exists)
    with prompt_terminal(repo, "watch") as prompt:
        prompt.wait_for("started")
        prompt.send("")
        prompt.send("Use tabs. \u00fc")
        prompt.wait_for("Task t1 reads it before its next turn.")
        prompt.type(f"and{ALT_ENTER}  more\r")
        prompt.wait(lambda: prompt.text.count("reads it before its next turn") == 2)
        (repo / "go").touch()
        prompt.wait_for("SUCCESS", "You: Use tabs. \u00fc")
        assert prompt.wait_for_end() == 0


async def test_what_is_being_typed_stays_while_milestones_arrive(repo: Path) -> None:
    (repo / "script.yaml").write_text(TWO_GATES)
    await call(repo, "submit", "x")
    await until((repo / "started").exists)
    with prompt_terminal(repo, "watch", columns=60) as prompt:
        prompt.wait_for("started")
        prompt.type("Use tabs")
        prompt.wait(lambda: prompt.prompt == "> Use tabs")
        (repo / "go").touch()
        prompt.wait_for("] Refused: ")
        prompt.type(", and")
        prompt.wait(lambda: prompt.prompt == "> Use tabs, and")
        assert prompt.text.count("> Use tabs") == 1
        (repo / "on").touch()
        assert prompt.wait_for_end() == 0
    assert ("Not said: Use tabs, and" in prompt.text, "> Use tabs" in prompt.text) == (True, False)


@pytest.mark.parametrize("keys", [f"half a line{CTRL_C}", CTRL_D, "/quit\r"])
async def test_whoever_stops_watching_leaves_the_task_alone(repo: Path, keys: str) -> None:
    (repo / "script.yaml").write_text(gated())
    await call(repo, "submit", "x")
    await until((repo / "started").exists)
    with prompt_terminal(repo, "watch") as prompt:
        prompt.wait_for("started")
        prompt.send("/diff")
        prompt.wait_for("/diff works in the interactive terminal")
        prompt.type(keys)
        assert prompt.wait_for_end() == 130
    assert "Task t1 continues; headgate cancel t1 ends it." in prompt.text
    assert states(repo) == {"t1": "RUNNING"}
    (repo / "go").touch()
    await until(lambda: reports(repo))
    assert (states(repo), reports(repo)[0]["unread"]) == ({"t1": "SUCCESS"}, [])


async def test_in_the_background_nothing_is_drawn_over_what_is_typed_for_the_shell(repo: Path) -> None:
    (repo / "script.yaml").write_text(gated())
    await call(repo, "submit", "x")
    await until((repo / "started").exists)
    background = f"set -m; {shlex.join([*HEADGATE, 'watch', 't1'])} & wait"
    seen = b""
    with terminal(repo, ["/bin/sh", "-c", background]) as (_, master):
        while b"WORK: working" not in seen:
            seen += os.read(master, 65536)
        (repo / "go").touch()
        with suppress(OSError):  # the shell has ended
            while piece := os.read(master, 65536):
                seen += piece
    assert (b"SUCCESS" in seen, b"\x1b[?25l" in seen) == (True, False)


async def test_without_a_terminal_nothing_is_read(repo: Path) -> None:
    (repo / "script.yaml").write_text(gated())
    await call(repo, "submit", "x")
    await until((repo / "started").exists)
    (repo / "go").touch()
    watched = headgate(repo, "watch", "t1", stdin="Use tabs.\n")
    assert (watched.returncode, "You:" in watched.stdout) == (0, False)


async def test_a_follow_up_of_the_latest_ended_task(repo: Path) -> None:
    (repo / "a.yaml").write_text(step("a"))
    seen = json.dumps(["Request:\nAdd a line.", "+a"])
    (repo / "b.yaml").write_text(f"- calls: [{{ls: {{}}}}]\n  expect: {{seen: {seen}}}\n- text: Done.\n")
    first = await call(repo, "run", "Add a line.", "--boundary", "kept.txt", "--model", "script:a.yaml")
    assert first[0] == 0, first
    code, _out, err = await call(repo, "run", "--follow", "last", "Go on.", "--model", "script:b.yaml")
    assert code == 0, err
    assert (
        "The constraints of task t1 hold for this one, too: Boundaries (must not be written): - kept.txt."
        in err
    )
    assert "; follow-up of t1" in err
    assert "Follow-up of t1.\n" in (await call(repo, "show", "t2"))[1]
    assert json.loads((await call(repo, "tasks", "--json"))[1])[1]["follows"] == "t1"


async def test_a_question_about_the_answer_before(repo: Path) -> None:
    (repo / "a.yaml").write_text("- calls: [{read_file: {path: agent.yaml}}]\n- text: In dates.py.\n")
    seen = json.dumps("Its answer:\nIn dates.py.")
    (repo / "b.yaml").write_text(
        f"- calls: [{{read_file: {{path: agent.yaml}}}}]\n  expect: {{seen: {seen}}}\n- text: Since 2019.\n"
    )
    assert (await call(repo, "ask", "Where?", "--model", "script:a.yaml"))[:2] == (0, "In dates.py.\n")
    asked = await call(repo, "ask", "--follow", "last", "Since when?", "--model", "script:b.yaml")
    assert asked[:2] == (0, "Since 2019.\n"), asked[2]


async def test_what_cannot_be_followed(repo: Path) -> None:
    (repo / "script.yaml").write_text(gated())
    run = await start(repo, "run", "x")
    await line_with(run.stderr, "WORK")
    problems = {
        "t1": "Task t1 has not ended (RUNNING): say it to that task, or wait for its end to follow it.",
        "last": "No task has ended yet: there is nothing to follow.",
        "t9": 'There is no task "t9": the latest is t1.',
    }
    for name, problem in problems.items():
        code, _, err = await call(repo, "submit", "--follow", name, "y")
        assert (code, problem in " ".join(err.split())) == (2, True), err
    code, _, err = await call(repo, "run", "--follow", "t1", "--resume", "t1")
    assert (code, "leave out --resume" in err) == (2, True)
    (repo / "go").touch()
    await ended(run)
