"""`headgate doctor`: each check, against real repositories and a real server."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from headgate.cli.commands.doctor import check_protected_tests, examine
from headgate.cli.model_checks import PATIENCE, check_transport
from headgate.cli.setup_checks import DoctorFinding, check_disk, check_repository
from headgate.config import Config
from headgate.core import Message, ModelSettings, Reply
from headgate.process import NoSandbox, find_bubblewrap


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-user-config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def last(finish: str = "stop") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}


def calling(name: str = "report_ready", *arguments: str) -> tuple[dict[str, Any], ...]:
    first = {"index": 0, "id": "c1", "function": {"name": name, "arguments": ""}}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in arguments or ('{"ok"', ": true}")]
    return (*(delta(tool_calls=[piece]) for piece in (first, *rest)), last("tool_calls"))


@dataclass
class Server:
    """A chat-completions server: which models it has, and what it answers to a question."""

    models: list[str] | None = field(default_factory=lambda: ["m"])
    """None does not list them."""
    known: tuple[str, ...] = ("m",)
    events: Iterable[dict[str, Any]] = calling()
    refusal: tuple[int, Any] | None = None
    listing: tuple[int, Any] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def list_models(self, request: web.Request) -> web.Response:
        if self.listing:
            return web.json_response(self.listing[1], status=self.listing[0])
        if self.models is None:
            return web.json_response({"error": "no such path"}, status=404)
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        if self.asked[-1]["model"] not in self.known:
            return web.json_response({"error": {"message": "model not found"}}, status=404)
        if self.refusal:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self.events:
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
            await asyncio.sleep(0)
        await response.write(b"data: [DONE]\n\n")
        return response

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Yields the address."""
        app = web.Application()
        app.add_routes(
            [web.get("/v1/models", self.list_models), web.post("/v1/chat/completions", self.complete)]
        )
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()


async def findings(
    repo: Path,
    environ: dict[str, str] | None = None,
    patience: float = PATIENCE,
    fresh: bool = False,
    **flags: str,
) -> dict[str, DoctorFinding]:
    path = {"PATH": os.environ["PATH"]} | (environ or {})
    said: list[str] = []
    checks = examine(repo, None, flags, path, said.append, patience, fresh)
    found = {item.check: item async for item in checks}
    assert len(said) <= 2
    return found


async def ask(repo: Path, server: Server, model: str = "m", **more: Any) -> dict[str, DoctorFinding]:
    async with server.running() as address:
        return await findings(repo, model=f"openai/{model}", base_url=address, **more)


def outline(found: dict[str, DoctorFinding], *checks: str) -> list[tuple[str, str]]:
    return [(found[check].status, found[check].fault) for check in checks]


async def test_all_is_well(repo: Path) -> None:
    (repo / "agent.yaml").write_text("verification: {steps: [{name: tests, command: git --version}]}\n")
    server = Server(models=["m", "other"])
    async with server.running() as address:
        found = await findings(repo, model="openai/m", base_url=address)
    del found["git"], found["ripgrep"], found["disk"], found["sandbox"]
    assert list(found.values()) == [
        DoctorFinding("repository", "ok", f"{repo}, on main, no commits yet, 1 uncommitted change"),
        DoctorFinding("configuration", "ok", "agent.yaml, --model, --base-url"),
        DoctorFinding("flow", "ok", "staged: explore, plan, implement"),
        DoctorFinding("verification: tests", "ok", "git --version"),
        DoctorFinding(
            "protected tests",
            "note",
            "none: no file looks like a test, and no step names one",
            "Name them in agent.yaml, such as `test_paths: [checks/**]`.",
        ),
        DoctorFinding("model", "ok", f"openai/m at {address}"),
        DoctorFinding("server", "ok", "reachable, 2 models"),
        DoctorFinding("streaming", "ok", "a reply arrived in 2 pieces"),
        DoctorFinding("tool calls", "ok", "the model called the tool as asked"),
        DoctorFinding("tool transport", "ok", "native: native tool calls work"),
    ]
    (question,) = server.asked
    assert question["max_tokens"] == 1024
    assert [tool["function"]["name"] for tool in question["tools"]] == ["report_ready"]


WORDS = (delta(content="I am"), delta(content=" ready."), last())
ANOTHER = "Headgate calls tools in another way."
WRONG_CALL = 'the model did not call report_ready as asked: it called "'
AS_TEXT = "the server does not turn the model's calls into tool calls"
NO_LIST = "reachable, it does not list its models"
BY_TEXT = "text: the server does not accept tools, schemas are ignored"
Finding = tuple[str, str, str, str, str]
"""A check, its status, whose fault it is, and how its detail and its fix begin."""


def refuses(status: int, message: Any) -> Server:
    # The list does not have the model: that is no reason to say so.
    return Server(models=["other"], refusal=(status, {"error": message}))


def as_text(text: str) -> tuple[Server, str, list[Finding]]:
    server = Server(events=(delta(content=text[:9]), delta(content=text[9:]), last()))
    return (
        server,
        "m",
        [
            ("streaming", "ok", "", "", ""),
            ("tool calls", "warn", "", AS_TEXT, f"{ANOTHER} Turn on tool calling in the server. llama.cpp: "),
            ("tool transport", "ok", "", "text: the model writes its calls as text", ""),
        ],
    )


def no_tools(status: int, message: Any, fix: str) -> tuple[Server, str, list[Finding]]:
    found = [("server", "ok", "", "", ""), ("tool calls", "warn", "", "", f"{ANOTHER} {fix}")]
    return refuses(status, message), "m", [*found, ("tool transport", "ok", "", BY_TEXT, "")]


def fails(status: int, message: Any, fault: str, detail: str, fix: str) -> tuple[Server, str, list[Finding]]:
    return refuses(status, message), "m", [("reply", "fail", fault, detail, fix)]


def calls(
    events: tuple[dict[str, Any], ...], detail: str, fix: str = ""
) -> tuple[Server, str, list[Finding]]:
    return Server(events=events), "m", [("tool calls", "warn", "", detail, fix)]


def lists(status: int, listing: Any, told: str) -> tuple[Server, str, list[Finding]]:
    found = [("server", "ok", "", told, ""), ("tool calls", "ok", "", "", "")]
    return Server(listing=(status, listing)), "m", found


JSON_CALL = '{"name": "report_ready", "arguments": {"ok": true}}'
ENV, CONF = "environment", "configuration"


@pytest.mark.parametrize(
    ("server", "model", "expected"),
    [
        no_tools(500, {"message": "tools param requires --jinja flag"}, "Start llama-server with --jinja."),
        no_tools(
            400,
            {"message": '"auto" tool choice requires --enable-auto-tool-choice'},
            "Start vLLM with --enable-auto-tool-choice and the --tool-call-parser that fits the model.",
        ),
        no_tools(400, "gemma3 does not support tools", "Choose a model that can call tools; on Ollama, "),
        no_tools(400, "tool calling is not supported", "Turn on tool calling in the server. "),
        as_text(f"<tool_call>\n{JSON_CALL}\n</tool_call>"),
        as_text('{"name": "report_ready", "parameters": {"ok": true}}'),
        as_text(f"[TOOL_CALLS][{JSON_CALL}]"),
        as_text("<function=report_ready><parameter=ok>true</parameter></function>"),
        as_text("<|channel|>commentary to=functions.report_ready<|message|>{}"),
        calls(WORDS, "the model answered in words", ANOTHER),
        calls((last(),), "the model answered nothing"),
        calls(
            (delta(reasoning_content="Hm, "), last("length")), "the model had not called the tool after 1024 "
        ),
        calls(calling("get_weather"), f'{WRONG_CALL}get_weather"'),
        calls(calling("report_ready", "{oops"), f'{WRONG_CALL}report_ready"'),
        fails(429, {"message": "slow down"}, ENV, "slow down", "Wait and run this again"),
        fails(500, {"message": "CUDA died"}, ENV, "CUDA died", "Check the model server's log"),
        fails(503, {"message": "Loading model"}, ENV, "still loading", "Wait until the server"),
        fails(402, {"message": "no credit"}, ENV, "no quota left", "Check the quota"),
        fails(401, {"message": "bad key"}, CONF, "Set HEADGATE_API_KEY to a key", ""),
        fails(400, {"message": "top_k: bad"}, CONF, "top_k: bad", "Check `model`, `base_url`"),
        lists(404, {"error": "no such path"}, NO_LIST),
        lists(200, {"data": [{"name": "odd"}]}, NO_LIST),
        lists(200, "odd", NO_LIST),
        lists(403, {"error": "not with this key"}, f"{NO_LIST} for this key"),
        lists(200, {"data": []}, "reachable, 0 models"),
        (
            Server(models=["qwen3-coder", "llama"], known=("qwen3-coder",)),
            "qwen3-codr",
            [("model name", "fail", CONF, "", "Did you mean openai/qwen3-coder?")],
        ),
        (
            Server(models=["/models/weights.gguf"], known=("local",)),
            "local",
            [
                ("model name", "note", "", 'the server accepts "local" but does not list it', ""),
                ("streaming", "ok", "", "", ""),
                ("server", "ok", "", "reachable, 1 model", ""),
            ],
        ),
        (
            Server(events=calling("report_ready", '{"ok": true}')),
            "m",
            [("streaming", "note", "", "a reply arrived in one piece", ""), ("tool calls", "ok", "", "", "")],
        ),
    ],
)
async def test_what_a_server_answers(repo: Path, server: Server, model: str, expected: list[Finding]) -> None:
    (repo / "agent.yaml").write_text("tool_transport: auto\n")
    found = await ask(repo, server, model)
    for check, status, fault, detail, fix in expected:
        one = found[check]
        assert (one.status, one.fault) == (status, fault), one
        assert detail in one.detail, one
        assert one.fix.startswith(fix), one
        assert fault != CONF or bool(one.fix) == bool(fix), one
    failed = {check for check, one in found.items() if one.status == "fail"}
    assert failed == {check for check, status, *_ in expected if status == "fail"}
    assert server.models != ["other"] or "model name" not in found


async def test_how_tools_are_called_is_remembered_until_it_is_asked_anew(repo: Path) -> None:
    (repo / "agent.yaml").write_text("tool_transport: auto\n")
    server = Server(events=WORDS)
    counts, told = [], set()
    async with server.running() as address:
        for fresh in (False, False, True):
            found = await findings(repo, model="openai/m", base_url=address, fresh=fresh)
            counts.append(len(server.asked))
            told.add(found["tool transport"].detail)
    # The question is always asked; what shows that no schema holds is one more request.
    assert (counts, told) == ([2, 3, 5], {"text: the model called no tool, schemas are ignored"})


async def test_a_server_that_was_started_again_with_tools_is_asked_anew(repo: Path) -> None:
    (repo / "agent.yaml").write_text("tool_transport: auto\n")
    server = Server(events=WORDS)
    no_tools = (400, {"error": {"message": "m does not support tools"}})
    told = []
    async with server.running() as address:
        for events, refusal in ((server.events, None), (calling(), None), ((), no_tools), (calling(), None)):
            server.events, server.refusal = events, refusal
            found = await findings(repo, model="openai/m", base_url=address)
            told.append(found["tool transport"].detail)
    assert told == [
        "text: the model called no tool, schemas are ignored",
        "native: native tool calls work",
        "text: the server does not accept tools, schemas are ignored",
        "native: native tool calls work",
    ]


async def test_a_transport_that_is_named_is_used(repo: Path) -> None:
    (repo / "agent.yaml").write_text("tool_transport: native\n")
    server = Server(events=(delta(content='<tool_call>{"name": "report_ready", "arguments": {}}'), last()))
    found = await ask(repo, server)
    assert outline(found, "tool calls", "tool transport") == [("fail", "environment"), ("ok", "")]
    assert found["tool transport"].detail == "native, as configured"


async def test_a_schema_that_the_server_ignores_is_told(repo: Path) -> None:
    (repo / "agent.yaml").write_text("tool_transport: schema\n")
    found = await ask(repo, Server(events=WORDS))
    assert found["tool transport"] == DoctorFinding(
        "tool transport",
        "warn",
        "schema, as configured, but this server does not enforce a schema",
        "Leave tool_transport out.",
    )


async def test_a_schema_for_a_server_that_is_not_asked_is_taken_as_it_is() -> None:
    settings = ModelSettings(model="openai/gpt-5-mini", tool_transport="schema")
    told = await check_transport(settings, Reply(Message("assistant")), fresh=True, total=1)
    assert told == DoctorFinding("tool transport", "ok", "schema, as configured")


async def test_a_model_without_end_is_not_waited_for(repo: Path) -> None:
    server = Server(events=(delta(content="" if number else "On") for number in count()))
    found = await ask(repo, server, patience=0.3)
    assert outline(found, "reply") == [("fail", "environment")]
    assert found["reply"].detail == "the model did not finish in 0.3 s"


async def test_a_server_that_is_down(repo: Path) -> None:
    async with Server().running() as address:
        pass
    found = await findings(repo, model="openai/m", base_url=address)
    assert outline(found, "model", "server") == [("ok", ""), ("fail", "environment")]
    assert found["server"].detail.startswith(f"Nothing listens at {address}: start the model server")
    assert "streaming" not in found


async def test_ollama_that_is_down(repo: Path) -> None:
    async with Server().running() as address:
        pass
    found = await findings(repo, model="ollama/m", base_url=address)
    assert found["server"].detail == (
        f"Nothing listens at {address.removesuffix('/v1')}: start Ollama there, or correct its address "
        "(base_url or OLLAMA_HOST)."
    )
    assert found["server"].fix.startswith("Usual addresses: Ollama http://localhost:11434/v1, llama.cpp ")


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "anthropic/claude-sonnet-4-5"])
async def test_a_hosted_model_without_a_key(repo: Path, model: str) -> None:
    found = await findings(repo, model=model)
    assert outline(found, "model") == [("fail", "configuration")]
    assert "server" not in found
    variable = f"{model.partition('/')[0].upper()}_API_KEY"
    assert found["model"].detail.endswith(f"set {variable} or HEADGATE_API_KEY.")


async def test_a_silent_server(repo: Path) -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    for how, fix in ((wait, "The model may still be loading"), (cut, "The connection to the server broke")):
        async with await asyncio.start_server(how, "127.0.0.1", 0) as server:
            address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            found = await findings(repo, patience=0.2, model="openai/m", base_url=address)
        assert outline(found, "server") == [("fail", "environment")]
        assert found["server"].fix.startswith(fix)


async def test_a_key_that_is_withheld_is_said(repo: Path) -> None:
    (repo / "agent.yaml").write_text("model: script:none.yaml\nmodels: {}\n")
    assert "API key" not in await findings(repo, {"OPENAI_API_KEY": "k"})
    async with Server().running() as address:
        (repo / "agent.yaml").write_text(f"model: openai/m\nbase_url: {address}\n")
        found = await findings(repo, {"OPENAI_API_KEY": "k"})
        assert outline(found, "API key", "streaming") == [("warn", ""), ("ok", "")]
        assert found["API key"].detail.startswith(f"OPENAI_API_KEY is not sent to {address}, ")
        assert "API key" not in await findings(repo, {"HEADGATE_API_KEY": "k"})


async def test_a_script_is_only_loaded(repo: Path) -> None:
    (repo / "script.yaml").write_text("- text: hello\n")
    (repo / "broken.yaml").write_text("5\n")
    found = await findings(repo, model="script:script.yaml")
    assert found["model"] == DoctorFinding("model", "ok", "script:script.yaml")
    assert outline(await findings(repo, model="script:broken.yaml"), "model") == [("fail", "configuration")]
    found = await findings(repo, model="script:absent.yaml")
    missing = f"The script {repo / 'absent.yaml'} does not exist."
    assert found["model"] == DoctorFinding("model", "fail", missing, fault="configuration")


def test_without_git_it_is_said_once(repo: Path) -> None:
    found = json.loads(run(repo, "--json", PATH="/nonexistent").stdout)
    faults = [item for item in found if item["fault"] == "environment"]
    assert [(item["check"], item["detail"]) for item in faults] == [("git", "not found")]


@pytest.mark.parametrize(
    ("agent", "check"),
    [
        ("flow: stagd\n", "flow"),
        ("flow: planned\nrecipes: [nope]\n", "flow"),
        ("flow: [{id: a, tools: {allow: [raed_file]}}]\n", "flow"),
        ("model: openai/m\nflow: [{id: a, model: cheap}]\n", "flow"),
        ("model: openai/m\nflow: flat\nscouts: {code: llm, model: cheap}\n", "flow"),
        ("verification: {steps: [{name: t, command: no-such-program-here -q}]}\n", "verification: t"),
        ("model: openai/m\nlimits: {cost: 1}\n", "flow"),
        ("monorepo: {package: nope}\n", "flow"),
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


def run(repo: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "headgate", "doctor", "--repo", str(repo), *argv],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(repo), **env},
        cwd="/",
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


@pytest.mark.parametrize(
    ("settings", "status", "detail"),
    [
        ("", "note", "protect_tests is off; --benchmark protects 3 files: checks/** (2), conftest.py"),
        ("protect_tests: all", "ok", "3 files: checks/** (2), conftest.py"),
        ("{protect_tests: all, test_paths: [qa]}", "ok", "4 files: checks/** (2), conftest.py, qa/** (1)"),
        ("{protect_tests: all, test_paths: [gone/**]}", "warn", "test_paths: gone/** matches no file"),
    ],
)
def test_which_tests_are_protected(repo: Path, settings: str, status: str, detail: str) -> None:
    for path in ("checks/c_a.py", "checks/c_b.py", "conftest.py", "qa/a.txt", "calc.py"):
        (repo / path).parent.mkdir(exist_ok=True)
        (repo / path).write_text("")
    steps = {"steps": [{"name": "tests", "command": "pytest checks"}]}
    config = Config.model_validate({**(yaml.safe_load(settings) or {}), "verification": steps})
    found = check_protected_tests(config, repo)
    assert (found.check, found.status, found.detail) == ("protected tests", status, detail)
    assert bool(found.fix) == (status == "warn")


def test_protection_without_a_test_is_a_warning(repo: Path) -> None:
    (repo / "calc.py").write_text("")
    found = check_protected_tests(Config(protect_tests="existing"), repo)
    assert found.status == "warn"
    assert found.detail == "protect_tests is existing, but no file looks like a test, and no step names one"


@pytest.mark.parametrize(("setting", "status"), [("off", "warn"), ("auto", "ok")])
async def test_which_layer_is_at_work(
    repo: Path, setting: str, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if setting == "auto" and isinstance(missing := find_bubblewrap(os.environ.get("PATH")), NoSandbox):
        pytest.skip(missing.reason)
    user_file = tmp_path / "own" / "headgate" / "config.yaml"
    user_file.parent.mkdir(parents=True)
    user_file.write_text(f"sandbox: {setting}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    found = (await findings(repo, model="script:none.yaml"))["sandbox"]
    assert found.status == status
    assert ("bubblewrap; network off" in found.detail) == (status == "ok")
