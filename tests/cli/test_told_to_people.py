"""What people are told while a task runs and afterwards: calls, failing tests, and words of the model."""

import json
import re
from pathlib import Path

from command import headgate

EVIL = "Done.\x1b[2J\r\u202eVerified by run_1.\x9b31m"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def script(*replies: object) -> str:
    return json.dumps(list(replies))  # JSON is YAML


def test_calls_are_lines_below_the_milestones(repo: Path) -> None:
    (repo / "old.txt").write_text("one\ntwo\nthree\n")
    (repo / "script.yaml").write_text(
        script(
            {"calls": [{"read_file": {"path": "old.txt"}}, {"think": {"text": "Where is it?"}}]},
            {
                "calls": [
                    {"edit_file": {"path": "old.txt", "old": "two", "new": "2\nand more"}},
                    {"shell": {"command": "cat missing"}},
                    {"read_file": {"path": "gone.txt"}},
                ]
            },
            {"text": "Done."},
        )
    )
    run = headgate(repo, "run", "x")
    assert [line.strip() for line in run.stderr.splitlines() if line.startswith("        ")] == [
        "read old.txt",
        "edit old.txt +2 -1",
        "run cat missing: failed (exit code 1)",
        "read: failed: gone.txt does not exist",
    ]
    assert "Where is it?" not in run.stderr
    assert "edit old.txt" not in headgate(repo, "show").stdout
    watched = headgate(repo, "watch").stdout
    assert "        edit old.txt +2 -1\n" in watched
    detailed = headgate(repo, "watch", "--detail").stdout
    assert "edit_file old.txt\n" in detailed
    assert "+2 -1" not in detailed


def test_time_counts_from_before_the_repository_is_read(repo: Path) -> None:
    events = map(json.loads, headgate(repo, "run", "--json", "x").stdout.splitlines())
    started = next(event for event in events if event["kind"] == "task_started")
    assert 0 < started["at"] - started["body"]["began"] < 60
    shown = json.loads(headgate(repo, "report", "--json").stdout)
    assert shown["seconds"] >= started["at"] - started["body"]["began"]


def test_words_of_a_model_cannot_steer_what_reads_a_pipe(repo: Path) -> None:
    done = {"calls": [{"write_file": {"path": "new.txt", "content": EVIL}}]}
    (repo / "script.yaml").write_text(script(done, {"text": EVIL}))
    with (repo / "agent.yaml").open("a") as config:
        config.write("verification: {steps: [{name: check, command: test -s new.txt}]}\n")
    run = headgate(repo, "run", "x")
    assert "The model says: Done.\\x1b[2J \\u202eVerified by run_1.\\x9b31m" in run.stdout
    said = [run.stdout, run.stderr]
    said += [
        headgate(repo, *words).stdout for words in (["report"], ["show"], ["show", "--detail"], ["tasks"])
    ]
    said += [page.read_text() for page in (repo / ".headgate" / "context").glob("*.md")]
    assert [STEERING.findall(text) for text in said] == [[]] * 7
    diff = headgate(repo, "diff").stdout  # the user's own bytes
    assert "Done.\x1b[2J" in diff
    assert "\u202eVerified by run_1.\x9b31m" in diff
    assert json.loads(headgate(repo, "report", "--json").stdout)["model_says"] == " ".join(EVIL.split())


def test_an_answer_cannot_steer_what_reads_a_pipe(repo: Path) -> None:
    (repo / "script.yaml").write_text(
        script({"calls": [{"read_file": {"path": "agent.yaml"}}]}, {"text": EVIL})
    )
    asked = headgate(repo, "ask", "What is this?")
    assert (asked.returncode, STEERING.findall(asked.stdout + asked.stderr)) == (0, [])
    assert "\\u202eVerified by run_1." in asked.stdout


def test_what_follows_a_submit_is_said_beside_the_id(repo: Path) -> None:
    submitted = headgate(repo, "submit", "--no-start", "x")
    assert submitted.stdout == "t1\n"
    assert submitted.stderr == (
        "headgate watch t1 follows it; headgate cancel t1 cancels it."
        " It waits for the next headgate run or submit.\n"
    )


def test_saying_something_to_nobody(repo: Path) -> None:
    headgate(repo, "run", "x")
    said = headgate(repo, "say", "Hello")
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == 'headgate: No task is running or queued: start one with "headgate run".\n'
