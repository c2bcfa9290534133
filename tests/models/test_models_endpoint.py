"""Settings, model names and addresses."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from headgate.core import ModelSettings
from headgate.errors import ConfigError
from headgate.models import ScriptedModel, check_model, find_endpoint, open_configured_model, split_model
from headgate.models.endpoint import Endpoint, is_own_server
from headgate.models.network import open_model
from headgate.models.wire.http import find_proxy, list_models


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("openai/qwen3-coder", ("openai", "qwen3-coder")),
        ("ollama/qwen3-coder:30b", ("ollama", "qwen3-coder:30b")),
        ("ollama/hf.co/unsloth/Qwen3-4B-GGUF:Q4_K_M", ("ollama", "hf.co/unsloth/Qwen3-4B-GGUF:Q4_K_M")),
        ("openai/qwen/qwen3-coder:30b", ("openai", "qwen/qwen3-coder:30b")),
        ("anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("script:demo/a.yaml", ("script", "demo/a.yaml")),
    ],
)
def test_model_names(model: str, parts: tuple[str, str]) -> None:
    assert split_model(model) == parts


@pytest.mark.parametrize("model", ["gpt-4o", "openai/", "anthropic", "ollama/", "script:", ""])
def test_unknown_forms_name_the_valid_ones(model: str) -> None:
    with pytest.raises(ConfigError, match=r"openai/NAME .* anthropic/NAME or script:FILE"):
        split_model(model)


def test_endpoints() -> None:
    assert find_endpoint(ModelSettings(model="openai/gpt-5")) == Endpoint(
        "openai", "gpt-5", "https://api.openai.com/v1", {}, ()
    )
    key = SecretStr("sk-secret")
    local = ModelSettings(model="openai/m", base_url="http://h:1/v1/", api_key=key, headers={"X-A": "b"})
    assert find_endpoint(local) == Endpoint(
        "openai", "m", "http://h:1/v1", {"Authorization": "Bearer sk-secret", "X-A": "b"}, ("sk-secret",)
    )
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "sk-secret"}
    for base_url in (None, "https://api.anthropic.com", "https://api.anthropic.com/v1/"):
        settings = ModelSettings(model="anthropic/m", base_url=base_url, api_key=key)
        expected = Endpoint("anthropic", "m", "https://api.anthropic.com/v1", headers, ("sk-secret",))
        assert find_endpoint(settings) == expected


@pytest.mark.parametrize(
    ("model", "base_url", "variable"),
    [
        ("openai/gpt-5", None, "OPENAI_API_KEY"),
        ("openai/gpt-5", "https://api.openai.com/v1/", "OPENAI_API_KEY"),
        ("anthropic/m", None, "ANTHROPIC_API_KEY"),
    ],
)
def test_a_hosted_service_needs_a_key(model: str, base_url: str | None, variable: str) -> None:
    settings = ModelSettings(model=model, base_url=base_url)
    with pytest.raises(ConfigError) as caught:
        check_model(settings)
    assert str(caught.value) == f"{model} needs a key, and there is none: set {variable} or HEADGATE_API_KEY."
    check_model(settings.model_copy(update={"api_key": SecretStr("sk-1")}))
    check_model(settings.model_copy(update={"headers": {"Authorization": "Bearer 1"}}))


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("openai/gpt-5", "http://localhost:8080/v1"),
        ("anthropic/m", "https://api.anthropic.com.example/v1"),
        ("ollama/m", None),
    ],
)
def test_a_server_of_one_s_own_needs_no_key(model: str, base_url: str | None) -> None:
    check_model(ModelSettings(model=model, base_url=base_url))


def test_blank_values_count_as_unset_and_a_key_is_trimmed() -> None:
    plain = find_endpoint(ModelSettings(model="openai/o3"))
    assert find_endpoint(ModelSettings(model="openai/o3", base_url=" ", api_key=SecretStr(""))) == plain
    keyed = find_endpoint(ModelSettings(model="openai/o3", api_key=SecretStr("sk-1\n")))
    assert keyed.headers == {"Authorization": "Bearer sk-1"}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"base_url": "localhost:8080"}, "must look like"),
        ({"base_url": "ftp://host"}, "must look like"),
        ({"base_url": "http://host:99999/v1"}, "must look like"),
        ({"base_url": "http://user:sk-a@host/v1"}, "must not contain a user name"),
        ({"base_url": "http://host/v1?key=sk-a"}, "without ?"),
        ({"api_key": "sk-a\nb"}, "API key"),
        ({"headers": {"X Y": "sk-a"}}, '"X Y"'),
        ({"headers": {"X": "sk-a\r\nY: b"}}, "line break"),
        ({"extra_body": {"messages": [], "tools": []}}, "must not set messages, tools"),
        ({"num_ctx": 8192}, "Only models named ollama/NAME have the setting num_ctx"),
        ({"keep_alive": "1h"}, "the setting keep_alive"),
        ({"think": False}, "the setting think"),
    ],
)
def test_settings_that_cannot_be_right(fields: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_endpoint(ModelSettings.model_validate({"model": "openai/gpt-5", **fields}))
    assert fault in str(caught.value)
    assert "sk-a" not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [None, "http://localhost:11434", "http://localhost:11434/", "http://localhost:11434/v1/"],
)
def test_every_address_of_ollama_means_the_same_server(base_url: str | None) -> None:
    settings = ModelSettings(model="ollama/qwen3:8b", base_url=base_url)
    assert find_endpoint(settings) == Endpoint("ollama", "qwen3:8b", "http://localhost:11434", {}, ())


@pytest.mark.parametrize(
    "name",
    [
        *("qwen3-coder", "m", "gpt-oss:20b", "gpt-oss-120b", "local", "llama3.2", "gpt-4-x-alpaca-13b"),
        *("o1-open-llama", "gpt4all", "gpt-4o:latest", "gpt-neox-20b", "qwen/gpt-5", "codexqwen"),
    ],
)
def test_a_name_that_openai_does_not_have_goes_nowhere_by_itself(name: str) -> None:
    """Not with a key either: it may be there for something else."""
    key = SecretStr("sk-hosted")
    with pytest.raises(ConfigError) as caught:
        find_endpoint(ModelSettings(model=f"openai/{name}", api_key=key))
    assert str(caught.value) == (
        f'OpenAI has no model "{name}", and no other server is named. '
        f"For Ollama, write model: ollama/{name}. For another server, set base_url to its address: "
        "llama.cpp http://localhost:8080/v1, vLLM http://localhost:8000/v1, "
        "LM Studio http://localhost:1234/v1. "
        "To use OpenAI anyway, set base_url to https://api.openai.com/v1."
    )
    named = ModelSettings(model=f"openai/{name}", api_key=key, base_url="https://api.openai.com/v1")
    assert find_endpoint(named).root == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "gpt-5",
            "gpt-5.2",
            "gpt-5-mini",
            "gpt-5.1-codex-max",
            "gpt-4o-2024-08-06",
            "gpt-4o-mini",
            "GPT-4.1",
        ),
        *("gpt-3.5-turbo-0125", "o1", "o3-pro", "o4-mini-deep-research", "chatgpt-4o-latest"),
        *("codex-mini-latest", "ft:gpt-4o-mini-2024-07-18:acme::abc123", "gpt-4-32k", "gpt-4.5-preview"),
    ],
)
def test_names_that_openai_has(name: str) -> None:
    assert find_endpoint(ModelSettings(model=f"openai/{name}")).root == "https://api.openai.com/v1"


def test_a_script_has_no_address() -> None:
    with pytest.raises(ConfigError, match="has no address"):
        find_endpoint(ModelSettings(model="script:a.yaml"))


async def test_open_model_takes_a_script_from_its_root(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- text: hi\n")
    async with open_configured_model(ModelSettings(model="script:a.yaml"), tmp_path) as (model, _):
        assert isinstance(model, ScriptedModel)
        assert model.name == "script:a.yaml"
    assert await list_models(ModelSettings(model="script:a.yaml")) is None


async def test_open_model_refuses_what_a_provider_lacks() -> None:
    with pytest.raises(ConfigError, match="seed"):
        async with open_model(ModelSettings(model="anthropic/m", seed=1)):
            pass
    with pytest.raises(ConfigError, match="Unknown model"):
        async with open_model(ModelSettings(model="m")):
            pass


def test_importing_the_engine_loads_no_http_client() -> None:
    code = "import sys, headgate.engine; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_proxies_come_from_the_environment_save_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    assert find_proxy("https://api.example.com/v1") is None
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example.com:3128")
    monkeypatch.setenv("HTTP_PROXY", "socks5://proxy.example.com")
    monkeypatch.setenv("NO_PROXY", "internal.example.com")
    assert find_proxy("https://api.example.com/v1") == "http://proxy.example.com:3128"
    assert find_proxy("https://internal.example.com/v1") is None
    for host in ("localhost", "127.0.0.1", "127.3.2.1", "[::1]", "0.0.0.0", "box.localhost"):
        assert find_proxy(f"https://{host}:8080/v1") is None
    with pytest.raises(ConfigError, match="HTTP_PROXY"):
        find_proxy("http://api.example.com/v1")


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("http://localhost:8080/v1", True),
        ("http://127.0.0.1:11434", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.20:8000/v1", True),
        ("http://[fd00::1]:8000/v1", True),
        ("http://gpu:8000/v1", True),
        ("http://gpu.local:8000/v1", True),
        ("http://host.docker.internal:11434", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("https://[2606:4700::1]/v1", False),
        ("https://models.example.org/v1", False),
        ("", False),
    ],
)
def test_which_servers_are_ones_own(address: str, own: bool) -> None:
    assert is_own_server(address) is own
