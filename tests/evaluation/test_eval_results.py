"""What an evaluation keeps: whose answers, of which commit, and what `--fresh` forgets."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from launcher import run_python

EVAL = Path(__file__).parents[2] / "eval"
TASK = "25_duration_text"
SOLUTION = (EVAL / "tasks" / TASK / "solution" / "duration_text.py").read_text("utf-8")


@contextmanager
def answering(text: str) -> Iterator[tuple[str, list[str]]]:
    """A server that always says the same: its address, and the models that it was asked for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if request.get("max_tokens") != 1:  # what makes a server forget is no question
                asked.append(request["model"])
            usage = {"prompt_tokens": 10, "completion_tokens": 5}
            body = json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the tests look at what was asked."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def evaluate(*arguments: str) -> str:
    done = run_python([str(EVAL / "run.py"), *arguments], Path.cwd(), os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_results_belong_to_a_run_a_task_and_a_model(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    earlier = [
        {"run": "baseline", "task": TASK, "level": "easy"},  # from before models were written down
        {"run": "baseline", "task": TASK, "level": "easy", "model": "other"},
        {"run": "repair", "task": TASK, "level": "easy", "model": "m"},
        {"run": "baseline", "task": "01_paragraph_wrap", "level": "easy", "model": "m"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in earlier))
    with answering(f"```python\n{SOLUTION}```") as (url, asked):
        given = ["--results", str(file), "--base-url", url, "--name", "m", "--runs", "baseline"]
        evaluate(*given, "--tasks", "25")
        assert asked == ["m"]
        (added,) = rows(file)[len(earlier) :]
        assert (added["run"], added["task"], added["model"], added["solved"]) == ("baseline", TASK, "m", True)
        assert re.fullmatch(r"([0-9a-f]{4,}\+?)?", added["commit"])
        evaluate(*given, "--tasks", "25")
        assert asked == ["m"]  # it is there
        printed = evaluate(*given, "--tasks", "25", "--fresh")
        assert asked == ["m", "m"]
    kept = [(row["run"], row["task"], row["model"]) for row in rows(file)]
    assert kept == [
        ("baseline", TASK, ""),
        ("baseline", TASK, "other"),
        ("repair", TASK, "m"),
        ("baseline", TASK, "m"),
    ]
    for name in ("baseline (unknown)", "baseline (other)", "repair (m)", "baseline (m)"):
        assert f"| {name} | " in printed


def test_another_version_takes_turns_with_this_one(tmp_path: Path) -> None:
    file, other = tmp_path / "results.jsonl", tmp_path / "other"
    counts = {"requests": 3, "prompt_tokens": 20, "cached_tokens": 5, "completion_tokens": 2}
    report = {"kind": "report", "state": "STUCK", "reason": "no_progress", "flow": "repair", **counts}
    other.write_text(f"#!/bin/sh\necho '{json.dumps(report)}'\n")
    other.chmod(0o755)
    with answering(f"```python\n{SOLUTION}```") as (url, _):
        given = ["--results", str(file), "--base-url", url, "--name", "m", "--tasks", "25"]
        evaluate(*given, "--runs", "before,baseline", "--also", f"before={other}")
    before, baseline = rows(file)
    assert (before["run"], before["ending"], before["evaluated"]) == ("before", "STUCK no_progress", 15)
    assert before["commit"] == ""  # nobody knows which one that is
    assert (baseline["run"], baseline["solved"]) == ("baseline", True)


def test_what_a_model_calls_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with answering('<tool_call>{"name": "ls", "arguments": {}}</tool_call>') as (url, asked):
        given = ["--results", str(file), "--base-url", url, "--name", "m", "--tasks", "25"]
        evaluate(*given, "--runs", "flat-text")
    (row,) = rows(file)
    assert (row["flow"], row["solved"]) == ("flat", False)
    assert (row["requests"], row["prompt"]) == (len(asked), 10 * len(asked))
    notes = row["notes"]
    assert notes["carried_out"] >= 3
    assert notes["not_carried_out"] >= 1  # the same once more, as often as one likes
    assert notes["unusable_reply"] >= 1  # asked for a report, it calls on
    one_each = ("carried_out", "not_carried_out", "unusable_reply", "no_call")
    assert sum(notes.get(name, 0) for name in one_each) == row["requests"]
    assert 0 < notes["first_replies"] < row["requests"]  # those of final turns, and of what was begun again
    assert notes["read_for_these"] == 10 * notes["first_replies"]


def test_the_commit_tells_whether_files_differ_from_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=eval", "-c", "user.email=eval@localhost"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit() -> str:
        code = (
            f"import sys; sys.path.insert(0, {str(EVAL)!r})\n"
            "from pathlib import Path\nfrom evaltasks import project_commit\n"
            f"project = Path({str(tmp_path)!r})\nprint(project_commit(project, project / 'results.jsonl'))"
        )
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert commit() == ""
    git("init", "-q")
    assert commit() == ""
    (tmp_path / "a.py").write_text("1\n")
    git("add", "-A")
    git("commit", "-q", "-m", "Begin")
    head = git("rev-parse", "--short", "HEAD")
    assert commit() == head
    (tmp_path / "results.jsonl").write_text("{}\n")
    assert commit() == head  # measuring is no change
    (tmp_path / "a.py").write_text("2\n")
    assert commit() == f"{head}+"
