"""`headgate doctor`: each check, against real repositories and a real server."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from headgate.cli.checkup import Finding, check_disk, check_repository, missing_program
from headgate.cli.doctor import examine

WORDS = ("one", " two", " three")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-user-config"))
    folder = tmp_path / "repo"
    folder.mkdir()
    git("init", "-q", "-b", "main", cwd=folder)
    return folder


def git(*args: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *args],
        cwd=cwd,
        check=True,
        capture_output=True,
    )


@asynccontextmanager
async def server(
    models: list[str] | None, known: set[str], words: tuple[str, ...] = WORDS
) -> AsyncIterator[str]:
    """A chat-completions server with these models; None does not list them. Yields its address."""

    async def list_models(request: web.Request) -> web.Response:
        if models is None:
            return web.json_response({"error": "no such path"}, status=404)
        return web.json_response({"data": [{"id": name} for name in models]})

    async def complete(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") == "Bearer wrong":
            return web.json_response({"error": {"message": "invalid api key"}}, status=401)
        asked = (await request.json())["model"]
        if asked not in known:
            return web.json_response({"error": {"message": f"model {asked} not found"}}, status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for word in words:
            delta = {"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
            await response.write(f"data: {json.dumps(delta)}\n\n".encode())
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        await response.write(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode())
        return response

    app = web.Application()
    app.add_routes([web.get("/v1/models", list_models), web.post("/v1/chat/completions", complete)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def findings(repo: Path, environ: dict[str, str] | None = None, **flags: str) -> dict[str, Finding]:
    path = {"PATH": os.environ["PATH"]}
    return {item.check: item async for item in examine(repo, None, flags, path | (environ or {}))}


def outline(found: dict[str, Finding], *checks: str) -> list[tuple[str, str]]:
    return [(found[check].status, found[check].fault) for check in checks]


async def test_all_is_well(repo: Path) -> None:
    (repo / "agent.yaml").write_text("verification: {steps: [{name: tests, command: git --version}]}\n")
    async with server(["m", "other"], {"m"}) as address:
        found = await findings(repo, model="openai/m", base_url=address)
    del found["git"], found["ripgrep"], found["disk"]
    assert list(found.values()) == [
        Finding("repository", "ok", f"{repo}, on main, no commits yet, 1 uncommitted change"),
        Finding("configuration", "ok", "agent.yaml, --model, --base-url"),
        Finding("flow", "ok", "staged: explore, plan, implement"),
        Finding("verification: tests", "ok", "git --version"),
        Finding("model", "ok", f"openai/m at {address}"),
        Finding("server", "ok", "reachable, 2 models"),
        Finding("streaming", "ok", "a reply came in 3 pieces"),
    ]


async def test_a_server_that_is_down(repo: Path) -> None:
    async with server(None, set()) as address:
        pass
    found = await findings(repo, model="openai/m", base_url=address)
    assert outline(found, "model", "server") == [("ok", ""), ("fail", "environment")]
    assert "streaming" not in found


async def test_a_misspelt_model(repo: Path) -> None:
    async with server(["qwen3-coder", "llama"], {"qwen3-coder"}) as address:
        found = await findings(repo, model="openai/qwen3-codr", base_url=address)
    assert outline(found, "model name") == [("fail", "configuration")]
    assert found["model name"].fix == "Did you mean openai/qwen3-coder?"


async def test_a_server_that_answers_to_any_name(repo: Path) -> None:
    async with server(["/models/weights.gguf"], {"local"}) as address:
        found = await findings(repo, model="openai/local", base_url=address)
    assert outline(found, "model name", "streaming") == [("note", ""), ("ok", "")]


async def test_a_server_that_lists_nothing_and_answers_at_once(repo: Path) -> None:
    async with server(None, {"m"}, ("all of it",)) as address:
        found = await findings(repo, model="openai/m", base_url=address)
    assert found["server"].detail == "reachable, it does not list its models"
    assert outline(found, "streaming") == [("note", "")]


async def test_a_wrong_key(repo: Path) -> None:
    async with server(["m"], {"m"}) as address:
        found = await findings(repo, {"HEADGATE_API_KEY": "wrong"}, model="openai/m", base_url=address)
    assert outline(found, "streaming") == [("fail", "configuration")]


async def test_a_key_that_is_withheld_is_said(repo: Path) -> None:
    (repo / "agent.yaml").write_text("model: script:none.yaml\nmodels: {}\n")
    assert "API key" not in await findings(repo, {"OPENAI_API_KEY": "k"})
    async with server(["m"], {"m"}) as address:
        (repo / "agent.yaml").write_text(f"model: openai/m\nbase_url: {address}\n")
        found = await findings(repo, {"OPENAI_API_KEY": "k"})
    assert outline(found, "API key", "streaming") == [("note", ""), ("ok", "")]


async def test_a_script_is_only_loaded(repo: Path) -> None:
    (repo / "script.yaml").write_text("- text: hello\n")
    (repo / "broken.yaml").write_text("5\n")
    assert outline(await findings(repo, model="script:script.yaml"), "script") == [("ok", "")]
    for name in ("broken.yaml", "absent.yaml"):
        found = await findings(repo, model=f"script:{name}")
        assert outline(found, "script") == [("fail", "configuration")]


@pytest.mark.parametrize(
    ("agent", "check"),
    [
        ("flow: stagd\n", "flow"),
        ("flow: [{id: a, tools: {allow: [raed_file]}}]\n", "flow"),
        ("model: openai/m\nflow: [{id: a, model: cheap}]\n", "flow"),
        ("verification: {steps: [{name: t, command: no-such-program-here -q}]}\n", "verification: t"),
        ("shell_timeout: soon\n", "configuration"),
        ("", "model"),
    ],
)
async def test_faults_of_the_configuration(repo: Path, agent: str, check: str) -> None:
    (repo / "agent.yaml").write_text(agent)
    found = await findings(repo, {"HEADGATE_BASE_URL": "http://127.0.0.1:9/v1"})
    assert outline(found, check) == [("fail", "configuration")]


def test_the_state_of_a_repository(repo: Path) -> None:
    (repo / "a").write_text("a")
    git("add", "a", cwd=repo)
    git("commit", "-q", "-m", "first", cwd=repo)
    clean = check_repository(repo)
    git("checkout", "-q", "--detach", cwd=repo)
    git("mv", "a", "b", cwd=repo)
    (repo / "? odd\nname").write_text("")
    assert [clean.detail, check_repository(repo).detail] == [
        f"{repo}, on main, clean",
        f"{repo}, detached HEAD, 2 uncommitted changes",
    ]


def test_a_repository_that_git_does_not_like(repo: Path) -> None:
    (repo / ".git" / "config").write_text("[broken\n")
    assert check_repository(repo).fault == "environment"


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    assert check_disk(tmp_path).status == "ok"
    assert list(tmp_path.iterdir()) == []
    assert check_disk(tmp_path / "absent").fault == "environment"


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("tool -q", None),
        ("absent -q", "absent"),
        ("VAR=1 OTHER='a b' tool", None),
        ("VAR=1 absent", "absent"),
        ("env VAR=1 absent", "absent"),
        ("cd sub && ./here", None),
        ("cd sub && ./elsewhere", "./elsewhere"),
        ("./here", "./here"),
        ("sub/here | tool", None),
        ("sub/plain", "sub/plain"),
        ("tool | absent", "absent"),
        ("tool && absent || true", "absent"),
        ("tool || absent", None),
        ("set -e\ntool\nabsent\n", "absent"),
        ("[ -f x ] && export A=1; test 1 = 1; tool", None),
        ("if tool; then absent; fi", "absent"),
        ('"$RUNNER" -q', None),
        ("cd $HOME && ./whatever", None),
        ("tool 'unclosed", None),
        ("# a comment\ntool > out.txt 2>&1", None),
        ("(cd sub; ./here)", None),
    ],
)
def test_programs_of_a_command(tmp_path: Path, command: str, missing: str | None) -> None:
    for name in ("bin/tool", "sub/here", "sub/plain"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o644 if name == "sub/plain" else 0o755)
    assert missing_program(command, tmp_path, str(tmp_path / "bin")) == missing


def run(repo: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "headgate", "doctor", "--repo", str(repo), *argv],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(repo), **env},
    )


def test_marks_fall_back_to_words(repo: Path) -> None:
    script = repo / "script.yaml"
    script.write_text("- text: hello\n")
    good = run(repo, "--model", "script:script.yaml", PYTHONIOENCODING="utf-8")
    plain = run(repo, PYTHONIOENCODING="ascii")
    assert (good.returncode, good.stderr) == (0, b"")
    assert "✓ model: script:script.yaml" in good.stdout.decode()
    assert (plain.returncode, plain.stderr) == (2, b"")
    assert b"ok   configuration: " in plain.stdout
    assert b"FAIL model: No model is configured" in plain.stdout


def test_json(repo: Path) -> None:
    done = run(repo, "--json", "--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, b"")
    assert [item["check"] for item in found if item["status"] == "fail"] == ["server"]
    assert set(found[0]) == {"check", "status", "detail", "fix", "fault"}
