"""`headgate serve` as a process: it works, stops, goes on, and is one process among others."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from command import headgate
from processes import GATED, PATIENCE, call, ended, is_dead, line_with, start, states, step, until
from serve_process import free_port, server


@pytest.fixture
def served(repo: Path) -> Path:
    (repo / "gated.yaml").write_text(GATED)
    (repo / "a.yaml").write_text(step("a"))
    (repo / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:gated.yaml\n")
    return repo


class Client:
    """Talks to one server, and to the next one at the same port."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session, self.url = session, f"http://127.0.0.1:{port}"
        self.seen: list[int] = []

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        async with self._session.request(method, f"{self.url}{path}", **options) as response:
            assert response.status < 300, await response.text()
            return await response.json(content_type=None)

    async def follow(self, last: str) -> None:
        """Reads all events like a browser: comes back after every end, until an event of a kind came."""
        async with asyncio.timeout(PATIENCE):
            while True:
                headers = {"Last-Event-ID": str(self.seen[-1] if self.seen else 0)}
                try:
                    async with self._session.get(
                        f"{self.url}/api/events?detail=1", headers=headers
                    ) as stream:
                        async for line in stream.content:
                            if line.startswith(b"id: "):
                                self.seen.append(int(line[4:]))
                            elif line.startswith(b"data: ") and json.loads(line[6:]).get("kind") == last:
                                return
                except aiohttp.ClientError:
                    pass  # it is not there at the moment
                await asyncio.sleep(0.05)


async def test_a_task_goes_on_after_a_restart_and_a_client_misses_nothing(served: Path) -> None:
    port = free_port()
    async with aiohttp.ClientSession() as session:
        client = Client(session, port)
        following = asyncio.create_task(client.follow("task_ended"))
        async with server(served, port) as first:
            await client.ask("POST", "/api/tasks", json={"text": "one"})
            await until((served / "started").exists)
            first.send_signal(signal.SIGTERM)
            await ended(first)
            assert first.returncode == 0
            assert states(served) == {"t1": "RUNNING"}
        (served / "go").touch()
        async with server(served, port):
            await following
            stored = (await client.ask("GET", "/api/tasks/t1?detail=1"))["events"]
    kinds = [event["kind"] for event in stored]
    assert "task_resumed" in kinds
    assert client.seen == [event["seq"] for event in stored]


async def test_a_server_that_is_killed_leaves_a_task_that_goes_on(served: Path) -> None:
    port = free_port()
    async with aiohttp.ClientSession() as session:
        client = Client(session, port)
        async with server(served, port) as first:
            await client.ask("POST", "/api/tasks", json={"text": "one"})
            await until((served / "started").exists)
            first.kill()
            await ended(first)
        (served / "go").touch()
        async with server(served, port):
            await client.follow("task_ended")
            stored = (await client.ask("GET", "/api/tasks/t1?detail=1"))["events"]
    assert [event["kind"] for event in stored].count("task_resumed") == 1


async def test_the_commands_work_the_same_with_a_server_and_without(served: Path) -> None:
    port = free_port()
    async with aiohttp.ClientSession() as session:
        client = Client(session, port)
        async with server(served, port):
            assert (await call(served, "submit", "one"))[:2] == (0, "t1\n")
            await until((served / "started").exists)
            await client.ask("POST", "/api/tasks", json={"text": "two"})
            assert (await call(served, "submit", "three", "--model", "script:a.yaml"))[1] == "t3\n"
            _, out, _ = await call(served, "tasks", "--json")
            assert [(task["id"], task["position"]) for task in json.loads(out)] == [
                ("t1", None),
                ("t2", 1),
                ("t3", 2),
            ]
            assert (await call(served, "cancel", "t2"))[:2] == (0, "Task t2 was removed from the queue.\n")
            watching = await start(served, "watch", "t1")
            (served / "go").touch()
            out_bytes, _ = await ended(watching)
            assert watching.returncode == 0
            assert "SUCCESS" in out_bytes.decode()
            assert (await call(served, "watch", "t3"))[0] == 0
            assert [task["id"] for task in await client.ask("GET", "/api/tasks")] == ["t3", "t1"]
            running = await call(served, "run", "four", "--model", "script:a.yaml")
            assert running[0] == 0
            assert (await client.ask("GET", "/api/tasks/t4"))["state"] == "SUCCESS"
    assert states(served) == {"t1": "SUCCESS", "t3": "SUCCESS", "t4": "SUCCESS"}


async def test_without_a_worker_another_process_does_the_work(served: Path) -> None:
    port = free_port()
    async with aiohttp.ClientSession() as session:
        client = Client(session, port)
        async with server(served, port, "--no-worker"):
            await client.ask("POST", "/api/tasks", json={"text": "one"})
            following = asyncio.create_task(client.follow("task_ended"))
            (served / "go").touch()
            assert states(served) == {"t1": "QUEUED"}
            assert (await call(served, "run", "--resume", "t1"))[0] == 0
            await following
            assert (await client.ask("GET", "/api/tasks/t1"))["state"] == "SUCCESS"


async def test_a_command_of_a_task_dies_with_the_server(served: Path) -> None:
    (served / "sleep.yaml").write_text('- calls: [{shell: {command: "echo $$ > pid; exec sleep 600"}}]\n')
    (served / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:sleep.yaml\n")
    port = free_port()
    async with aiohttp.ClientSession() as session:
        async with server(served, port):
            await Client(session, port).ask("POST", "/api/tasks", json={"text": "one"})
            await until(lambda: (served / "pid").exists() and (served / "pid").read_text().strip())
        await until(lambda: is_dead(int((served / "pid").read_text())))
    assert states(served) == {"t1": "RUNNING"}  # it was interrupted, not cancelled


def test_other_machines_need_a_token(served: Path) -> None:
    done = headgate(served, "serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "HEADGATE_TOKEN" in done.stderr


def test_blanks_are_no_token(served: Path) -> None:
    done = headgate(served, "serve", "--host", "0.0.0.0", "--port", "0", HEADGATE_TOKEN=" \n")
    assert done.returncode == 2
    assert "HEADGATE_TOKEN" in done.stderr


@pytest.mark.parametrize(
    ("options", "token", "said"),
    [
        (["--host", "0.0.0.0"], "easy", "HEADGATE_TOKEN is too easy to guess"),
        (["--allow-host", "http://box/"], "", "give only the name"),
    ],
)
def test_what_cannot_be_meant_is_told(served: Path, options: list[str], token: str, said: str) -> None:
    done = headgate(served, "serve", "--port", "0", *options, HEADGATE_TOKEN=token)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


async def test_a_configuration_that_is_wrong_is_told_at_the_start(served: Path) -> None:
    (served / "agent.yaml").write_text("modell: x\n")
    process = await start(served, "serve", "--port", "0")
    said = await line_with(process.stderr, "Tasks cannot be submitted yet")
    assert '"modell"' in said
    process.send_signal(signal.SIGTERM)
    await ended(process)


async def test_a_store_that_is_deleted_ends_the_server_with_a_word(served: Path) -> None:
    process = await start(served, "serve", "--port", "0")
    await line_with(process.stderr, "Headgate serves")
    shutil.rmtree(served / ".headgate")
    _, said = await ended(process)
    assert process.returncode == 3
    assert ".headgate was deleted. Start the server again." in said.decode()


async def test_an_interrupted_task_is_named_at_the_end(served: Path) -> None:
    port = free_port()
    async with aiohttp.ClientSession() as session:
        process = await start(served, "serve", "--port", str(port))
        await line_with(process.stderr, "Headgate serves")
        await Client(session, port).ask("POST", "/api/tasks", json={"text": "one"})
        await until((served / "started").exists)
    process.send_signal(signal.SIGINT)
    _, said = await ended(process)
    assert (process.returncode, "Task t1 was interrupted." in said.decode()) == (0, True)


async def test_a_token_opens_other_addresses(served: Path) -> None:
    async with server(served, 0, "--host", "0.0.0.0", HEADGATE_TOKEN="0123456789abcdef") as process:
        assert process.returncode is None


def test_a_port_in_use_is_told(served: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = headgate(served, "serve", "--port", str(port))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"Cannot listen at 127.0.0.1, port {port}: Address already in use." in done.stderr


def test_without_the_extra_the_command_says_how_to_install_it(served: Path, tmp_path: Path) -> None:
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('fastapi', 'uvicorn'):\n"
        "            raise ModuleNotFoundError(f'No module named {name}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "serve"],
        cwd=served,
        env={**os.environ, "PYTHONPATH": str(hide)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pipx install --force '.[server]'" in done.stderr
    assert "Traceback" not in done.stderr


DOCUMENT = Path(__file__).parents[2] / "docs" / "server.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_commands_in_the_document_work(served: Path) -> None:
    (served / "go").touch()
    port = free_port()
    commands = [line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("curl ")]
    said = ""
    async with server(served, port):
        for line in commands:
            words = shlex.split(line.replace("127.0.0.1:8321", f"127.0.0.1:{port}"))
            process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
            assert process.stdout is not None
            if "-N" in words:  # a stream does not end
                await line_with(process.stdout, '"text":"SUCCESS')
                process.kill()
            else:
                said += (await process.stdout.read()).decode()
            await process.wait()
    assert len(commands) == 2
    assert said.startswith('{"id":"t1","state":"QUEUED","position":1')
