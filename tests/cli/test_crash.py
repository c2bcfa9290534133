"""A process that is killed, and the next one, which takes the task up."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import headgate
from loopback import serving
from processes import is_dead, pid_of, start, until

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "a.txt", "content": "a\n"}),
    ("shell", {"command": "echo $$ > pid; exec sleep 300"}),
    ("write_file", {"path": "b.txt", "content": "b\n"}),
    ("stage_done", {"summary": "Wrote both."}),
]


class Counting:
    """Answers by what the conversation shows: stateless, as a real model is."""

    def __init__(self) -> None:
        self.results: list[str] = []

    def __call__(self, request: Any) -> tuple[int, Any]:
        messages = request["messages"]
        self.results.extend(message["content"] for message in messages if message["role"] == "tool")
        second = any("Another task" in str(message["content"]) for message in messages)
        number = 3 if second else sum(message["role"] == "assistant" for message in messages)
        name, arguments = STEPS[number]
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return 200, {"choices": [choice]}


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def server(model: Counting) -> Iterator[str]:
    with serving(model) as address:
        yield address


async def test_a_killed_task_is_taken_up_by_the_next_run(repo: Path, server: str, model: Counting) -> None:
    (repo / "agent.yaml").write_text("task_flow_mode: flat\nkeep_conversations: true\n")
    flags = ("--model", "openai/m", "--base-url", server)
    first = await start(repo, "run", "Write two files", *flags)
    await until(lambda: pid_of(repo))
    first.kill()
    await first.wait()
    left = pid_of(repo)
    assert not is_dead(left)
    second = await asyncio.to_thread(headgate, repo, "run", "Another task", *flags)
    assert second.returncode == 0, second.stderr
    assert "Task t1 resumed where it was interrupted" in second.stderr
    assert is_dead(left)
    taken_up = json.loads(headgate(repo, "report", "t1", "--json").stdout)
    assert (taken_up["state"], taken_up["files_changed"]) == ("SUCCESS", ["a.txt", "b.txt", "pid"])
    assert taken_up["tool_call_counts"] == {"write_file": 2, "shell": 1, "stage_done": 1}
    assert any("shell was interrupted by a crash and not run again" in text for text in model.results)
    assert json.loads(headgate(repo, "report", "t2", "--json").stdout)["state"] == "SUCCESS"
    assert len((repo / ".headgate" / "task_reports.jsonl").read_text().splitlines()) == 2
