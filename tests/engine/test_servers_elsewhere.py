"""Code that leaves this machine: what is said before it does, and whose word it was."""

from pathlib import Path
from typing import Any

import pytest

from headgate.config import load_config
from headgate.core import Options
from headgate.engine.flow_models import describe_servers, find_models
from headgate.engine.resolved import choose_flow
from headgate.log import Folder

AWAY = "http://192.0.2.2:18999"
SENDS = "in this repository sends the code that tasks read to"
HOSTED = "https://api.openai.com/v1"
STAGE = "stages: [{id: a, prompt: A., model: openai/gpt-5}]\n"


def told(
    tmp_path: Path,
    agent: str,
    user: str = "",
    flags: dict[str, Any] | None = None,
    **environ: str,
) -> tuple[str, ...]:
    repo = tmp_path / "repo"
    repo.mkdir(exist_ok=True)
    (repo / "agent.yaml").write_text(agent)
    (tmp_path / "user.yaml").write_text(user)
    flags = flags or {}
    loaded = load_config(repo, environ=environ, flags=flags, user_file=tmp_path / "user.yaml")
    options = Options(**flags)
    flow = choose_flow(loaded, options, Folder(repo))
    return describe_servers(find_models(loaded.config, flow, {}), loaded, options, repo, flow)


@pytest.mark.parametrize(
    ("agent", "more", "address"),
    [
        # Only the repository says it.
        (f"model: ollama/a\nbase_url: {AWAY}\n", {}, AWAY),
        ("model: ollama/a\nbase_url: http://192.168.1.7:11434\n", {}, "http://192.168.1.7:11434"),
        (f"model: m\nmodels: {{m: {{model: ollama/a, base_url: '{AWAY}'}}}}\n", {}, AWAY),
        ("model: openai/gpt-5\n", {}, HOSTED),
        ("model: ollama/a\nflow: [{id: a, prompt: A., model: openai/gpt-5}]\n", {}, HOSTED),
        # It stays on this machine.
        ("model: ollama/a\n", {}, ""),
        ("model: openai/a\nbase_url: http://localhost:8080/v1\n", {}, ""),
        ("model: openai/a\nbase_url: http://127.0.0.2:8080/v1\n", {}, ""),
        ("model: openai/a\nbase_url: http://[::1]:8080/v1\n", {}, ""),
        ("model: script:a.yaml\n", {}, ""),
        # The user says it, too.
        (f"model: ollama/a\nbase_url: {AWAY}\n", {"user": f"base_url: {AWAY}/v1\n"}, ""),
        (f"model: ollama/a\nbase_url: {AWAY}\n", {"flags": {"base_url": f"{AWAY}/"}}, ""),
        (f"model: ollama/a\nbase_url: {AWAY}\n", {"HEADGATE_BASE_URL": AWAY}, ""),
        (f"model: ollama/a\nbase_url: {AWAY}\n", {"OLLAMA_HOST": "192.0.2.2:18999"}, ""),
        ("model: ollama/a\n", {"OLLAMA_HOST": "192.0.2.2:18999"}, ""),
        ("model: ollama/a\n", {"flags": {"model": "openai/gpt-5"}}, ""),
        ("model: openai/gpt-5\n", {"HEADGATE_MODEL": "openai/gpt-5-mini"}, ""),
        ("model: openai/gpt-5\n", {"user": "models: {big: {model: openai/gpt-5}}\n"}, ""),
        # The user names a model, and the repository its server.
        (f"model: ollama/a\nbase_url: {AWAY}\n", {"flags": {"model": "ollama/b"}}, AWAY),
        (f"models: {{m: {{model: ollama/a, base_url: '{AWAY}'}}}}\n", {"flags": {"model": "m"}}, AWAY),
        # The user names another server.
        (
            f"model: m\nmodels: {{m: {{model: ollama/a, base_url: '{AWAY}'}}}}\n",
            *({"OLLAMA_HOST": "192.0.2.3"}, AWAY),
        ),
    ],
)
def test_a_server_elsewhere_is_told_unless_the_user_names_it(
    tmp_path: Path, agent: str, more: dict[str, Any], address: str
) -> None:
    assert told(tmp_path, agent, **more) == ((f"agent.yaml {SENDS} {address}.",) if address else ())


def test_a_local_openai_server_of_the_user_is_not_the_hosted_one(tmp_path: Path) -> None:
    stage = f"models: {{m: {{model: openai/gpt-5, base_url: '{HOSTED}'}}}}\n"
    flow = "flow: [{id: a, prompt: A., model: m}]\n"
    local = {"HEADGATE_MODEL": "openai/gpt-5", "OPENAI_BASE_URL": "http://localhost:8080/v1"}
    assert told(tmp_path, stage + flow, **local) == (f"agent.yaml {SENDS} {HOSTED}.",)


def test_a_flow_file(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "mine.yaml").write_text(STAGE)
    (tmp_path / "own.yaml").write_text(STAGE)
    own = str(tmp_path / "own.yaml")
    by_file = (f"mine.yaml {SENDS} {HOSTED}.",)
    assert told(tmp_path, "model: ollama/a\nflow: mine.yaml\n") == by_file
    assert told(tmp_path, "model: ollama/a\n", flags={"flow": "mine.yaml"}) == by_file
    assert told(tmp_path, "model: ollama/a\n", flags={"flow": own}) == ()
    assert told(tmp_path, f"model: ollama/a\nflow: {own}\n") == (f"agent.yaml {SENDS} {HOSTED}.",)


@pytest.mark.parametrize(
    "where", ["model: openai/gpt-5\nstages: [{id: a}]", STAGE.replace("prompt: A., ", "")]
)
def test_a_recipe_of_the_repository_that_names_a_hosted_model(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "repo" / "team"
    folder.mkdir(parents=True)
    (folder / "try.yaml").write_text(f"description: Try.\n{where}")
    agent = "model: ollama/a\nflow: planned\nrecipes: [team]\n"
    assert told(tmp_path, agent) == (f"team/try.yaml {SENDS} {HOSTED}.",)
    assert told(tmp_path, agent, "models: {openai/gpt-5: {model: ollama/b}}\n") == ()
