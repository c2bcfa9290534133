"""The API: what each address takes, returns and refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import Model, Serving, make_repo, serving

from headgate.core import Constraints, Options
from headgate.models import ScriptedModel
from headgate.server.access import MAX_BODY
from headgate.tree import git


class Gate(Model):
    """Does not answer before it is let through."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    async def _wait(self) -> None:
        self.asked.set()
        await self.open.wait()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path)


async def test_a_task_from_submission_to_its_report(repo: Path) -> None:
    async with serving(repo) as server:
        body = {"text": "Say hello", "keep": ["the tests"], "boundaries": ["secret/**"]}
        status, accepted = await server.ask("POST", "/api/tasks", json=body)
        assert (status, accepted["id"], accepted["state"], accepted["position"]) == (201, "t1", "QUEUED", 1)
        about_tests, about_paths = accepted["notices"]
        assert about_tests == '"the tests": no test that exists may be changed.'
        assert "secret/**" in about_paths
        await server.until("t1", "SUCCESS")
        _, (listed,) = await server.ask("GET", "/api/tasks")
        assert (listed["id"], listed["state"], listed["text"], listed["position"]) == (
            "t1",
            "SUCCESS",
            "Say hello",
            None,
        )
        _, shown = await server.ask("GET", "/api/tasks/t1")
        assert shown["milestones"][-1]["text"].startswith("SUCCESS")
        assert (shown["report"]["task_id"], shown["events"]) == ("t1", None)
        assert shown["report"]["constraints"]["keep"] == ["the tests"]
        _, detailed = await server.ask("GET", "/api/tasks/t1?detail=1")
        kinds = [event["kind"] for event in detailed["events"]]
        assert (kinds[0], kinds[-1]) == ("task_started", "task_ended")
        _, report = await server.ask("GET", "/api/tasks/t1/report")
        assert report == shown["report"]
        assert await server.ask("GET", "/api/tasks/t1/diff") == (200, "")
        assert await server.ask("GET", "/healthz") == (200, {"status": "ok"})


async def test_a_queued_task_is_removed_and_a_running_one_is_only_cancelled(repo: Path) -> None:
    gate = Gate()
    async with serving(repo, gate) as server:
        for text in ("one", "two", "three"):
            await server.submit(text)
        await gate.asked.wait()
        assert await server.ask("DELETE", "/api/tasks/t2") == (204, "")
        assert (await server.ask("GET", "/api/tasks/t2"))[0] == 404
        _, listed = await server.ask("GET", "/api/tasks")
        assert [(task["id"], task["position"]) for task in listed] == [("t3", 1), ("t1", None)]
        status, problem = await server.ask("DELETE", "/api/tasks/t1")
        assert (status, problem["detail"]) == (409, "Task t1 cannot be removed: it is RUNNING.")
        status, problem = await server.ask("POST", "/api/tasks/t1/undo")
        assert (status, problem["detail"]) == (409, "Task t1 is running: try t1 again when that has ended.")
        status, problem = await server.ask("POST", "/api/tasks/t1/resume")
        assert (status, problem["detail"]) == (409, "Task t1 cannot be resumed: it is RUNNING.")
        status, outcome = await server.ask("POST", "/api/tasks/t1/cancel")
        assert (status, outcome["outcome"]) == (200, "asked")
        await server.until("t1", "CANCELLED")
        gate.open.set()
        await server.until("t3", "SUCCESS")
        status, problem = await server.ask("POST", "/api/tasks/t3/cancel")
        assert (status, problem["detail"]) == (409, "Task t3 has already ended.")


async def test_a_running_task_concludes_with_what_it_has(repo: Path) -> None:
    gate = Gate()
    async with serving(repo, gate) as server:
        await server.submit("one")
        await gate.asked.wait()
        assert (await server.ask("POST", "/api/tasks/t1/cancel?conclude=1"))[0] == 200
        gate.open.set()
        await server.until("t1", "SUCCESS", "STUCK")
        assert (await server.ask("POST", "/api/tasks/t1/cancel?conclude=1"))[0] == 409


async def test_a_person_speaks_to_a_task(repo: Path) -> None:
    gate = Gate()
    async with serving(repo, gate) as server:
        for text in ("one", "two"):
            await server.submit(text)
        await gate.asked.wait()
        said = {"text": "Use tabs."}
        status, outcome = await server.ask("POST", "/api/tasks/t1/say", json=said)
        assert (status, outcome["outcome"], outcome["state"]) == (202, "said", "RUNNING")
        assert (await server.ask("POST", "/api/tasks/t2/say", json=said))[0] == 202
        for body in ({"text": " \n"}, {"text": "x" * 20_001}, {"text": 1}, {}, {"text": "x", "more": 1}):
            assert (await server.ask("POST", "/api/tasks/t1/say", json=body))[0] == 422
        assert (await server.ask("POST", "/api/tasks/t9/say", json=said))[0] == 404
        for _ in range(49):
            assert (await server.ask("POST", "/api/tasks/t1/say", json=said))[0] == 202
        status, problem = await server.ask("POST", "/api/tasks/t1/say", json=said)
        assert (status, problem["detail"]) == (409, "50 lines wait for task t1: wait until it has read them.")
        gate.open.set()
        await server.until("t2", "SUCCESS", "STUCK")
        status, problem = await server.ask("POST", "/api/tasks/t1/say", json=said)
        assert (status, problem["detail"]) == (409, "Task t1 has ended: start a follow-up instead.")
        _, shown = await server.ask("GET", "/api/tasks/t2")
        assert "You: Use tabs." in [line["text"] for line in shown["milestones"]]
        assert shown["report"]["unread"] == []


async def test_a_follow_up_keeps_the_constraints(repo: Path) -> None:
    async with serving(repo) as server:
        await server.submit("one", keep=["the tests"])
        await server.until("t1", "SUCCESS", "STUCK")
        status, accepted = await server.ask("POST", "/api/tasks", json={"text": "two", "follows": "t1"})
        assert status == 201
        assert accepted["notices"] == [
            "The constraints of task t1 hold for this one, too:"
            " Constraints (must be preserved): - the tests.",
            '"the tests": no test that exists may be changed.',
        ]
        _, shown = await server.ask("GET", "/api/tasks/t2")
        assert (shown["follows"], shown["report"]["constraints"]["keep"]) == ("t1", ["the tests"])
        await server.until("t2", "SUCCESS", "STUCK")
        status, problem = await server.ask("POST", "/api/tasks", json={"text": "x", "follows": "t9"})
        assert (status, problem["detail"]) == (409, 'There is no task "t9" to follow.')


JSON = {"Content-Type": "application/json"}
SCRIPT = """
- calls: [{write_file: {path: hello.txt, content: "hello\\n"}}]
- text: Done.
"""


def scripted_repo(place: Path, more: str = "") -> Path:
    """A repository whose model writes a file, by a script beside it."""
    script = place / "script.yaml"
    script.write_text(SCRIPT)
    return make_repo(place, f"task_flow_mode: flat\nmodel: script:{script}\n{more}")


@asynccontextmanager
async def in_a_worktree(repo: Path) -> AsyncIterator[Serving]:
    """A server, after its model has written a file in a worktree."""
    who = ("-c", "user.name=p", "-c", "user.email=p@example.org")
    git(repo, *who, "commit", "-q", "--allow-empty", "-m", "start")
    async with serving(repo, ScriptedModel.load(repo.parent / "script.yaml")) as server:
        server.service.engine.submit("Write hello", Constraints(), Options(worktree=True))
        await server.until("t1", "SUCCESS")
        yield server


async def test_a_proposal_is_shown_applied_or_discarded(tmp_path: Path) -> None:
    repo = scripted_repo(tmp_path)
    async with serving(repo, ScriptedModel.load(tmp_path / "script.yaml")) as server:
        await server.submit("Write hello", dry_run=True)
        await server.until("t1", "PROPOSED")
        assert "+hello" in (await server.ask("GET", "/api/tasks/t1/diff"))[1]
        assert not (repo / "hello.txt").exists()
        status, outcome = await server.ask("POST", "/api/tasks/t1/apply")
        assert (status, outcome["outcome"], outcome["state"]) == (202, "queued", "QUEUED")
        await server.until("t1", "SUCCESS")
        assert (repo / "hello.txt").read_text() == "hello\n"
        for path in ("apply", "abort"):
            status, problem = await server.ask("POST", f"/api/tasks/t1/{path}")
            assert (status, problem["detail"]) == (409, "Task t1 is not a proposal: it is SUCCESS.")


async def test_a_task_is_undone(tmp_path: Path) -> None:
    repo = scripted_repo(tmp_path)
    async with serving(repo, ScriptedModel.load(tmp_path / "script.yaml")) as server:
        await server.submit("Write hello")
        await server.until("t1", "SUCCESS")
        (repo / "hello.txt").write_text("mine\n")
        status, problem = await server.ask("POST", "/api/tasks/t1/undo")
        assert (status, (repo / "hello.txt").read_text()) == (409, "mine\n")
        assert "hello.txt: has changed, and would be deleted" in problem["detail"]
        assert "Undo" in await server.page("/tasks/t1")
        (repo / "hello.txt").write_text("hello\n")
        status, outcome = await server.ask("POST", "/api/tasks/t1/undo")
        assert (status, outcome["outcome"], outcome["state"]) == (200, "undone", "SUCCESS")
        assert not (repo / "hello.txt").exists()
        assert (await server.ask("GET", "/api/tasks/t1/report"))[1]["undone"]
        assert [task["undone"] for task in (await server.ask("GET", "/api/tasks"))[1]] == [True]
        shown = await server.page("/tasks/t1")
        assert "It was undone" in shown
        assert 'id="undo-t1"' not in shown
        assert (await server.ask("POST", "/api/tasks/t1/undo"))[0] == 409
        assert (await server.ask("POST", "/api/tasks/t9/undo"))[0] == 404


async def test_a_worktree_is_applied_or_discarded(tmp_path: Path) -> None:
    async with in_a_worktree(repo := scripted_repo(tmp_path)) as server:
        shown = await server.page("/tasks/t1")
        assert 'id="apply-t1"' in shown
        assert 'id="undo-t1"' not in shown
        (repo / "hello.txt").write_text("mine\n")
        status, problem = await server.ask("POST", "/api/tasks/t1/apply")
        assert (status, "hello.txt: already exists" in problem["detail"]) == (409, True)
        (repo / "hello.txt").unlink()
        status, outcome = await server.ask("POST", "/api/tasks/t1/apply")
        assert (status, outcome["outcome"], outcome["verified"]) == (202, "merged", None)
        assert (repo / "hello.txt").read_text() == "hello\n"
        assert "Its changes are in your own tree, not verified there." in await server.page("/tasks/t1")
        assert 'id="undo-t1"' in await server.page("/tasks/t1")
        assert (await server.ask("POST", "/api/tasks/t1/abort"))[0] == 409
        assert (await server.ask("POST", "/api/tasks/t1/apply"))[0] == 409


async def test_a_worktree_that_was_discarded_is_not_applied(tmp_path: Path) -> None:
    async with in_a_worktree(repo := scripted_repo(tmp_path)) as server:
        assert (await server.ask("POST", "/api/tasks/t1/abort"))[1]["outcome"] == "aborted"
        status, problem = await server.ask("POST", "/api/tasks/t1/apply")
        assert (status, problem["detail"].startswith("Task t1 was discarded")) == (409, True)
        assert not (repo / "hello.txt").exists()
        assert (await server.ask("POST", "/api/tasks/t1/abort"))[0] == 409
        assert (await server.ask("POST", "/api/tasks/t1/undo"))[0] == 409
        shown = await server.page("/tasks/t1")
        assert "Its worktree was discarded" in shown
        assert 'id="apply-t1"' not in shown


@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_applied_is_verified_with_the_steps_of_the_task(tmp_path: Path, fails: bool) -> None:
    steps = "sandbox: off\nverification: {{steps: [{{name: check, command: {}}}]}}\n"
    repo = scripted_repo(tmp_path, steps.format("test ! -e mine.txt"))
    async with in_a_worktree(repo) as server:
        (repo / "agent.yaml").write_text(steps.format("exit 9"))
        if fails:
            (repo / "mine.txt").write_text("mine\n")
        status, outcome = await server.ask("POST", "/api/tasks/t1/apply")
        assert (status, outcome["outcome"], outcome["verified"]) == (202, "merged", not fails)
        assert ("exit code 1" in outcome["reason"]) == fails
        assert (repo / "hello.txt").read_text() == "hello\n"
        report = (await server.ask("GET", "/api/tasks/t1/report"))[1]
        assert (report["merge_verified"], report["merge_run"]) == (not fails, outcome["run_id"])
        said = "but verification failed there: step" if fails else "and verified there."
        shown = await server.page("/tasks/t1")
        assert f"Its changes are in your own tree, {said}" in shown
        assert f"/tasks/t1/runs/{outcome['run_id']}" in shown
        assert "$ test ! -e mine.txt" in await server.page(f"/tasks/t1/runs/{outcome['run_id']}")


async def test_a_stuck_task_is_tried_again_as_a_new_one(repo: Path) -> None:
    gate = Gate()
    async with serving(repo, gate) as server:
        await server.submit("one")
        await gate.asked.wait()
        await server.ask("POST", "/api/tasks/t1/cancel")
        await server.until("t1", "CANCELLED")
        gate.open.set()
        status, outcome = await server.ask("POST", "/api/tasks/t1/resume", json={"text": "and two"})
        assert (status, outcome["id"], outcome["outcome"]) == (202, "t2", "queued")
        await server.until("t2", "SUCCESS")
        assert server.service.row("t2").task.resumes == "t1"
        assert (await server.ask("POST", "/api/tasks/t2/resume"))[0] == 409


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "said"),
    [
        ("GET", "/api/tasks/t9", {}, 404, 'There is no task "t9".'),
        ("GET", "/api/tasks/x", {}, 404, 'There is no task "x".'),
        ("GET", "/api/nothing", {}, 404, "There is nothing at this address."),
        ("PUT", "/api/tasks", {}, 405, "This address takes GET, POST."),
        ("POST", "/api/tasks", {"json": {}}, 422, "text: it is missing"),
        ("POST", "/api/tasks", {"json": {"text": "  "}}, 422, "text: it is blank"),
        ("POST", "/api/tasks", {"json": {"text": "a", "tekst": 1}}, 422, "tekst: there is no such key"),
        ("POST", "/api/tasks", {"json": {"text": "a", "flow": "no-such"}}, 422, "no-such"),
        ("POST", "/api/tasks", {"json": {"text": "a", "flow": "../x.yaml"}}, 422, "There is no flow"),
        ("POST", "/api/tasks", {"data": b"{"}, 422, "Content-Type: application/json"),
        ("POST", "/api/tasks", {}, 422, "Send a JSON object"),
        ("POST", "/api/tasks", {"data": b"{", "headers": JSON}, 422, "The body is not valid JSON."),
        ("POST", "/api/tasks", {"data": b'"\xff', "headers": JSON}, 422, "The body is not JSON in UTF-8."),
        ("POST", "/api/tasks", {"json": {"text": "Boundaries:\n- a/**\n"}}, 422, "The task is empty"),
        ("POST", "/api/tasks", {"data": b"x" * (MAX_BODY + 1)}, 413, "Send at most 1,000,000 bytes."),
        ("GET", "/api/runs/..%2f..%2fagent.yaml/log", {}, 404, ""),
        ("GET", "/api/runs/run_20260101_000000_abcdef/log", {}, 404, "There is no log of a run"),
        ("GET", "/api/events", {"headers": {"Last-Event-ID": "x"}}, 422, "Last-Event-ID is the number"),
        ("POST", "/api/tasks/t1/apply", {}, 404, 'There is no task "t1".'),
    ],
)
async def test_what_is_wrong_is_said_in_one_form(
    repo: Path, method: str, path: str, options: dict[str, Any], status: int, said: str
) -> None:
    async with serving(repo, works=False) as server:
        async with server.client.request(method, f"{server.url}{path}", **options) as response:
            assert response.headers["content-type"] == "application/problem+json"
            problem = await response.json(content_type=None)
        assert (response.status, problem["status"], problem["type"]) == (status, status, "about:blank")
        assert said in problem["detail"]
        assert (await server.ask("GET", "/api/tasks"))[1] == []


async def test_a_configuration_that_is_wrong_is_told_and_then_read_again(repo: Path) -> None:
    (repo / "agent.yaml").write_text("task_flow_mod: flat\n")
    async with serving(repo, works=False) as server:
        status, problem = await server.ask("POST", "/api/tasks", json={"text": "a"})
        assert status == 409  # nothing is wrong with the request
        assert "task_flow_mode" in problem["detail"]
        (repo / "agent.yaml").write_text("task_flow_mode: flat\n")
        assert await server.submit("a") == "t1"


async def test_metrics_count_tasks_turns_tokens_and_clients(repo: Path) -> None:
    async with serving(repo) as server:
        await server.submit("one")
        await server.until("t1", "SUCCESS")
        async with server.client.get(f"{server.url}/api/tasks/t1/events") as stream:
            await stream.content.readline()
            _, text = await server.ask("GET", "/metrics")
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert figures['headgate_tasks{state="SUCCESS"}'] == "1.0"
    assert figures["headgate_queue_length"] == "0.0"
    assert figures["headgate_stream_clients"] == "1.0"
    assert float(figures["headgate_turns_total"]) >= 1
    assert float(figures['headgate_tokens_total{kind="prompt"}']) >= 10


async def test_the_description_of_the_api_is_whole(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        _, document = await server.ask("GET", "/openapi.json")
    assert document["openapi"].startswith("3.")
    calls = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert calls >= {
        "POST /api/tasks",
        "GET /api/tasks",
        "GET /api/tasks/{task_id}",
        "DELETE /api/tasks/{task_id}",
        "POST /api/tasks/{task_id}/cancel",
        "POST /api/tasks/{task_id}/apply",
        "POST /api/tasks/{task_id}/abort",
        "POST /api/tasks/{task_id}/undo",
        "GET /api/tasks/{task_id}/events",
        "GET /api/events",
        "GET /api/tasks/{task_id}/report",
        "GET /api/tasks/{task_id}/diff",
        "GET /api/runs/{run_id}/log",
        "GET /api/healthz",
    }
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            assert route.get("summary"), f"{method} {path}"
            errors = [code for code in route["responses"] if code >= "400"]
            assert errors, f"{method} {path} names no errors"
            for code in errors:
                assert "application/problem+json" in route["responses"][code]["content"]


async def test_what_a_task_mentions_is_checked_when_it_is_submitted(repo: Path) -> None:
    (repo / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n0000")
    (repo / "cart.py").write_text("total = 0\n")
    async with serving(repo) as server:
        status, refused = await server.ask("POST", "/api/tasks", json={"text": "Look at @shot.png"})
        assert (status, "shot.png is an image, and fake cannot see images" in str(refused)) == (422, True)
        status, accepted = await server.ask("POST", "/api/tasks", json={"text": "Fix @crt.py in @cart.py"})
        said = ["@crt.py is not attached: crt.py does not exist. Did you mean cart.py?"]
        assert (status, accepted["notices"]) == (201, said)
        await server.until("t1", "SUCCESS")
        _, report = await server.ask("GET", "/api/tasks/t1/report")
        assert report["files_read"] == ["cart.py"]
        (line,) = report["usage"]
        assert (line["model"], line["sent"], line["cost"]) == ("fake", report["prompt_tokens"], None)
        _, page = await server.ask("GET", "/tasks/t1")
        assert '<table class="usage">' in page
        assert "<td>fake</td>" in page
