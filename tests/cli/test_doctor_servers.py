"""What `headgate doctor` says about Ollama, about servers that are none, and about hosted models offline."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from loopback import listing

from headgate.cli.commands.doctor import examine
from headgate.cli.model_checks import judge_speed, other_addresses
from headgate.cli.setup_checks import DoctorFinding
from headgate.core import Message, ModelSettings, Reply, Timing, Usage
from models.model_server import answer, serve
from models.ollama_server import calling, ollama

REMEDY = (
    "Write model: ollama/qwen3:8b, for which Headgate sets the window, "
    "or start Ollama with OLLAMA_CONTEXT_LENGTH=32768 ollama serve."
)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-user-config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "repo"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


async def findings(repo: Path, environ: dict[str, str] | None = None, **flags: str) -> list[DoctorFinding]:
    """What is said about the model."""
    own = {"PATH": os.environ["PATH"], "HEADGATE_SERVERS": ""} | (environ or {})
    found = [finding async for finding in examine(repo, None, flags, own)]
    start = next(index for index, item in enumerate(found) if item.check in ("model", "server"))
    return found[start:]


def say(body: Any) -> list[dict[str, Any]]:
    return [calling("report_ready", ok=True)]


async def test_ollama_s_own_api(repo: Path) -> None:
    async with ollama(say=say) as (server, habits):
        found = await findings(repo, model="ollama/qwen3:8b", base_url=server.url)
    assert found == [
        DoctorFinding("model", "ok", f"ollama/qwen3:8b at {server.url}"),
        DoctorFinding("server", "ok", "reachable, 1 model"),
        DoctorFinding("tool calls", "ok", "the model called the tool as asked"),
        DoctorFinding("tool transport", "ok", "native: native tool calls work"),
        DoctorFinding("speed", "ok", "the model writes 6 tokens per second; the server loaded it in 3 s"),
        DoctorFinding("context window", "ok", "16,384 tokens"),
    ]
    assert {body["options"]["num_ctx"] for body in habits.chats} == {16_384}


async def test_a_model_of_ollama_s_that_has_a_small_window(repo: Path) -> None:
    async with ollama(say=say, models={"qwen3:8b": {"context_length": 8192}}) as (server, _):
        found = await findings(repo, model="ollama/qwen3:8b", base_url=server.url)
    assert found[-1] == DoctorFinding(
        "context window", "warn", "8,192 tokens", "Set a larger num_ctx for this model in `models`."
    )


async def test_ollama_s_other_api_has_its_default_window(repo: Path) -> None:
    async with ollama(say=say) as (server, _):
        found = await findings(repo, model="openai/qwen3:8b", base_url=server.url)
    detail = "4,096 tokens, and Ollama silently cuts off what does not fit"
    assert found[-1] == DoctorFinding("context window", "warn", detail, REMEDY)
    async with ollama(say=say, default_window=32_768) as (server, _):
        found = await findings(repo, model="openai/qwen3:8b", base_url=server.url)
    assert found[-1] == DoctorFinding("context window", "ok", "32,768 tokens")


async def test_a_model_that_ollama_does_not_have(repo: Path) -> None:
    async with ollama(say=say) as (server, _):
        found = await findings(repo, model="ollama/qwen3:30b", base_url=server.url)
    assert (found[-1].check, found[-1].fault) == ("model name", "configuration")
    assert "Get it with `ollama pull qwen3:30b`" in found[-1].detail
    assert found[-1].fix == "Did you mean ollama/qwen3:8b?"


async def test_a_web_server_is_not_called_reachable(repo: Path) -> None:
    page = b"<!doctype html><html><head><title>Welcome</title></head></html>"
    for status in (200, 404):
        async with serve(answer(page, status, content_type="text/html")) as server:
            found = await findings(repo, model="openai/m", base_url=server.url)
        assert [(item.check, item.status) for item in found[:1]] == [("model", "ok")]
        assert [item.status for item in found[1:]] == ["fail"]


async def test_a_local_name_without_a_server(repo: Path) -> None:
    listed = {"/api/version": {"version": "1"}, "/api/tags": {"models": [{"name": "qwen3-coder:30b"}]}}
    with listing(listed) as url:
        environ = {"HEADGATE_SERVERS": url, "OPENAI_API_KEY": "sk-hosted"}
        found = await findings(repo, environ, model="openai/qwen3-coder")
    assert (found[0].check, found[0].fault) == ("model", "configuration")
    assert found[0].detail.startswith('OpenAI has no model "qwen3-coder", and no other server is named.')
    assert found[1:] == [
        DoctorFinding(
            "server",
            "note",
            f"Found Ollama at {url} with 1 model: qwen3-coder:30b.",
            f"Write model: ollama/qwen3-coder:30b and base_url: {url}.",
        )
    ]


async def test_no_model_at_all(repo: Path) -> None:
    found = await findings(repo)
    assert [item.check for item in found] == ["model"]
    assert found[0].detail.startswith("No model is configured")


async def test_offline_the_doctor_says_nothing_about_local_servers(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that is not there stands for a network that is not there."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    for model in ("anthropic/claude-x", "openai/gpt-5"):
        found = await findings(repo, {"HEADGATE_API_KEY": "k"}, model=model)
        assert (found[-1].check, found[-1].fault) == ("server", "environment")
        assert found[-1].fix == "If this machine needs a proxy to reach the internet, set HTTPS_PROXY."
        assert "base_url" not in found[-1].detail


def test_speed_is_told_where_the_server_tells() -> None:
    said = Message("assistant", "Hi")
    assert judge_speed(Reply(said, Usage(10, 20))) is None
    assert judge_speed(Reply(said, Usage(10, 20), timing=Timing())) is None
    finding = judge_speed(Reply(said, Usage(10, 20), timing=Timing(0.1, 0.5, 2.0)))
    assert finding == DoctorFinding("speed", "ok", "the model writes 10 tokens per second")


def test_the_address_that_has_just_failed_is_not_advised() -> None:
    others = "vLLM http://localhost:8000/v1, LM Studio http://localhost:1234/v1"
    assert other_addresses(ModelSettings(model="ollama/m")) == f"llama.cpp http://localhost:8080/v1, {others}"
    llamacpp = ModelSettings(model="openai/m", base_url="http://localhost:8080/v1")
    assert other_addresses(llamacpp) == f"Ollama http://localhost:11434/v1, {others}"
