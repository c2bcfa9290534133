"""Where the configuration comes from, which model it means, and where keys may go."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from headgate.config import Config, Loaded, load_config
from headgate.config.load import merge
from headgate.config.schema import NO_MODEL
from headgate.core import ModelSettings
from headgate.errors import ConfigError

LOCAL = "http://localhost:11434/v1"
REMOTE = "https://models.example/v1"


class Setup:
    """A user's file, a repository with its file, and the call."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.repo.mkdir()
        self.user_file = folder / "user.yaml"

    def load(
        self,
        agent: str | None = None,
        user: str | None = None,
        environ: Mapping[str, str] | None = None,
        config_file: Path | None = None,
        **flags: Any,
    ) -> Loaded:
        if agent is not None:
            (self.repo / "agent.yaml").write_text(agent)
        if user is not None:
            self.user_file.write_text(user)
        return load_config(
            self.repo, config_file=config_file, environ=environ or {}, flags=flags, user_file=self.user_file
        )

    def failure(self, agent: str | None = None, **more: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(agent, **more)
        assert re.match(r"[A-Z/]|agent\.yaml", str(caught.value))
        assert str(caught.value).endswith((".", "?"))
        return str(caught.value)

    def endpoint(
        self, agent: str | None = None, name: str | None = None, **more: Any
    ) -> tuple[str | None, ...]:
        """Model, address and key of a model."""
        return shown(self.load(agent, **more).config.model_settings(name))


def shown(settings: ModelSettings) -> tuple[str | None, ...]:
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return settings.model, settings.base_url, key


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_without_any_file_there_are_the_defaults(setup: Setup) -> None:
    loaded = setup.load()
    assert loaded.sources == ()
    assert loaded.config.model_dump() == Config().model_dump()


def test_the_order(setup: Setup) -> None:
    user = "model: openai/user\nshell_timeout: 1\nkeep_conversations: true\n"
    agent = "model: openai/agent\nshell_timeout: 2\n"
    environ = {"HEADGATE_MODEL": "openai/environment"}
    assert setup.load(user=user).config.model == "openai/user"
    config = setup.load(agent).config
    assert (config.model, config.shell_timeout, config.keep_conversations) == ("openai/agent", 2, True)
    assert setup.load(environ=environ).config.model == "openai/environment"
    loaded = setup.load(environ=environ, model="openai/flag", flow="flat")
    assert (loaded.config.model, loaded.config.flow) == ("openai/flag", "flat")
    assert loaded.sources == (str(setup.user_file), "agent.yaml", "HEADGATE_MODEL", "--model", "--flow")


def test_another_file_takes_the_place_of_agent_yaml(setup: Setup, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("model: openai/other\n")
    loaded = setup.load("model: openai/agent\nshell_timeout: 7\n", config_file=other)
    assert (loaded.config.model, loaded.config.shell_timeout) == ("openai/other", 120)
    assert loaded.sources == (str(other),)


def test_models_merge_by_name_and_boundaries_add_up(setup: Setup) -> None:
    user = "models: {a: {model: openai/a, api_key: secret}, b: {model: openai/b}}\nboundaries: [x, y]\n"
    config = setup.load("models: {a: {model: openai/other}}\nboundaries: [z]\n", user=user).config
    assert config.models == {"a": ModelSettings(model="openai/other"), "b": ModelSettings(model="openai/b")}
    assert config.boundaries == ("z", "x", "y")


def test_keys_without_a_value_count_as_absent(setup: Setup) -> None:
    assert setup.load("model:\nverification:\nflow:\n").config == setup.load("").config


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("x: 1\ny: 2\nmodle: a\n", '1: unknown key "x": known are '),
        ("\n\nmodle:\n", '3: unknown key "modle": did you mean "model"?'),
        (
            "model: openai/m\nmax_tokens: 100\n",
            '2: "max_tokens" is a setting of one model: write it into an ',
        ),
        ("task_branching: true\ntask_flow_mode: flat\n", "1: task_branching: true means task_flow_mode: "),
        ("model: 5\n", '1: "model" must be text'),
        ("agents_md: 7\n", '1: "agents_md" must be true or false'),
        ("boundaries: x\n", '1: "boundaries" must be a list'),
        ("models:\n  a: openai/x\n", '2: "models.a" must be a mapping of "key: value" lines'),
        ("models:\n  a:\n    seed: 1\n", '2: "model" is missing'),
        (
            "models:\n  a:\n    model: x\n    timeouts:\n      conect: 1\n",
            '5: unknown key "conect": did you mean',
        ),
        (
            "verification:\n  steps:\n    - name: a\n      comand: b\n",
            '4: unknown key "comand": did you mean "co',
        ),
        (
            "verification:\n  steps:\n  - name: a\n    command: ''\n",
            '4: "verification.steps[0].command" must not',
        ),
        (
            "task_flow_mode: stagd\n",
            "1: \"task_flow_mode\" must be 'auto', 'staged', 'staged3', 'branched', ",
        ),
        ("monorepo: {}\n", '1: "package" is missing'),
        ("shell_timeout: 0\n", '1: "shell_timeout" must be greater than 0'),
        ("shell_timeout: 1e999\n", '1: "shell_timeout" must be a finite number'),
        ("tool_result_chars: 1.5\n", '1: "tool_result_chars" must be a whole number'),
        ("flow: 5\n", '1: "flow" must be text'),
        ("flow:\n- id: a\n- id: b\n  promt: x\n", '4: unknown key "promt": did you mean "prompt"?'),
        ("flow:\n- id: -bad\n", '2: "flow[0].id" '),
        ("base_url: localhost:8080\n", '1: "base_url" must be an address such as '),
        (
            "models:\n  a: {model: openai/x, base_url: http://u:pw@}\n",
            '2: "base_url" must be an address such as ',
        ),
        (
            "shell_env:\n- A\n- HEADGATE_API_KEY\n",
            "3: a repository's file may not pass on HEADGATE_API_KEY; name ",
        ),
        ("a: [\n", "2: this is not valid YAML: "),
    ],
)
def test_what_is_wrong_in_agent_yaml(setup: Setup, agent: str, message: str) -> None:
    said = setup.failure(agent)
    assert said.startswith(f"agent.yaml, line {message}")
    assert "pw" not in said


def test_what_is_wrong_outside_agent_yaml(setup: Setup, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    assert setup.failure(config_file=missing) == f"{missing} does not exist."
    folder = tmp_path / "folder"
    folder.mkdir()
    assert setup.failure(config_file=folder) == f"{folder} is a directory, but a file was expected."
    assert setup.failure(model=" ") == "The option --model needs a value."
    bad = {"HEADGATE_BASE_URL": "localhost"}
    assert setup.failure(environ=bad, model="openai/x").startswith("HEADGATE_BASE_URL must be an address")
    assert setup.failure(base_url="ftp://x", model="openai/x").startswith(
        "The option --base-url must be an address"
    )
    assert setup.failure(user="modell: x\n").startswith(f"{setup.user_file}, line 1: unknown key")


def test_a_file_that_cannot_be_read(setup: Setup) -> None:
    agent = setup.repo / "agent.yaml"
    agent.mkdir()
    assert setup.failure() == "agent.yaml is a directory, but a file was expected."
    agent.rmdir()
    agent.write_text("model: openai/x\n")
    agent.chmod(0)
    if not os.access(agent, os.R_OK):
        assert setup.failure() == "agent.yaml cannot be read: Permission denied."


def test_a_secret_is_not_in_a_message(setup: Setup) -> None:
    assert "hunter2" not in setup.failure("api_key: [hunter2]\n")
    assert "hunter2" not in repr(setup.load("api_key: hunter2\nmodel: openai/x\n").config)


@pytest.mark.parametrize(
    ("file", "environ", "said"),
    [
        ("agent.yaml", {}, "`headgate init` looks for models on this machine."),
        ("agent.yml", {}, ""),
        (
            "agent.yaml",
            {"OPENAI_API_KEY": "sk-1"},
            "OPENAI_API_KEY is set, but a key alone sends no code anywhere. "
            "To let tasks send code to OpenAI, name one of its models: headgate init --model openai/NAME. "
            "To keep the code here, start a model server and run headgate init.",
        ),
    ],
)
def test_no_model_is_configured(setup: Setup, file: str, environ: dict[str, str], said: str) -> None:
    (setup.repo / file).write_text("flow: flat\n")
    with pytest.raises(ConfigError) as caught:
        setup.load(environ=environ).config.model_settings()
    assert str(caught.value) == f"{NO_MODEL.format(file=file)} {said}".strip()


@pytest.mark.parametrize(
    ("agent", "name", "message"),
    [
        ("model: qwen3", None, 'There is no model "qwen3": did you mean "ollama/qwen3"?'),
        (
            "model: claude-sonnet-4-5",
            None,
            'model "claude-sonnet-4-5": did you mean "anthropic/claude-sonnet',
        ),
        ("model: gpt-5", None, 'There is no model "gpt-5": did you mean "openai/gpt-5"?'),
        ("model: chep\nmodels: {cheap: {model: openai/x}}", None, '"chep": did you mean "cheap"?'),
        ("model: openai/x\nmodels: {cheap: {model: openai/x}}", "chaep", '"chaep": did you mean "cheap"?'),
        ("model: openai/", None, 'There is no model "openai/"'),
        ("model: a\nmodels: {a: {model: b}}", None, 'There is no model "b"'),
        ("model: mistral/x", None, 'There is no model "mistral/x". A model is ollama/NAME, '),
        ("model: ollama_chat/qwen3:8b", None, 'There is no provider "ollama_chat": write ollama/qwen3:8b.'),
        ("model: lm-studio/x", None, 'There is no provider "lm-studio": write openai/x '),
        ("model: hosted_vllm/a/b", None, 'There is no provider "hosted_vllm": write openai/a/b '),
        ("model: local/x", None, "write openai/x and base_url http://localhost:8080/v1."),
    ],
)
def test_unknown_models(setup: Setup, agent: str, name: str | None, message: str) -> None:
    config = setup.load(agent).config
    with pytest.raises(ConfigError) as caught:
        config.model_settings(name)
    assert message in str(caught.value)


AT_HOME = f"model: openai/a\nbase_url: {LOCAL}\napi_key: k\n"
AN_ENTRY = f"model: big\nmodels: {{big: {{model: openai/a, base_url: {REMOTE}}}}}\n"
GENERAL = {
    "OPENAI_API_KEY": "ok\n",
    "OPENAI_BASE_URL": "http://openai.example/v1",
    "ANTHROPIC_API_KEY": "ak",
    "HEADGATE_API_KEY": " ",
}


@pytest.mark.parametrize(
    ("agent", "name", "given", "expected"),
    [
        (AT_HOME, None, {}, ("openai/a", LOCAL, "k")),
        # An entry knows its own server best, but a flag or a variable wins.
        (f"base_url: {LOCAL}\napi_key: k\n{AN_ENTRY}", None, {}, ("openai/a", REMOTE, None)),
        (AN_ENTRY, None, {"base_url": LOCAL}, ("openai/a", LOCAL, None)),
        (AN_ENTRY, None, {"environ": {"HEADGATE_BASE_URL": LOCAL}}, ("openai/a", LOCAL, None)),
        # Others of the provider are on the same server; a key stays with its server and provider.
        (AT_HOME + "models: {cheap: {model: openai/b}}\n", "cheap", {}, ("openai/b", LOCAL, "k")),
        (AT_HOME, "openai/c", {}, ("openai/c", LOCAL, "k")),
        (AT_HOME + AN_ENTRY.partition("\n")[2], "big", {}, ("openai/a", REMOTE, None)),
        (AT_HOME, "anthropic/c", {}, ("anthropic/c", None, None)),
        (AT_HOME, "anthropic/c", {"environ": GENERAL}, ("anthropic/c", None, "ak")),
        (None, None, {"user": AT_HOME, "model": "anthropic/c"}, ("anthropic/c", None, None)),
        (None, None, {"user": AT_HOME, "model": "openai/c"}, ("openai/c", LOCAL, "k")),
        # General variables are for their provider; a script has neither address nor key.
        (
            None,
            None,
            {"model": "openai/a", "environ": GENERAL},
            ("openai/a", GENERAL["OPENAI_BASE_URL"], "ok"),
        ),
        (None, None, {"model": "anthropic/b", "environ": GENERAL}, ("anthropic/b", None, "ak")),
        (
            None,
            None,
            {"model": "script:s.yaml", "environ": {"HEADGATE_API_KEY": "k", "HEADGATE_BASE_URL": LOCAL}},
            ("script:s.yaml", None, None),
        ),
    ],
)
def test_where_a_model_is_and_which_key_it_gets(
    setup: Setup, agent: str | None, name: str | None, given: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    assert setup.endpoint(agent, name, **given) == expected


def test_a_default_by_name_keeps_its_other_settings(setup: Setup) -> None:
    agent = f"model: big\nbase_url: {LOCAL}\napi_key: k\nmodels: {{big: {{model: openai/a, seed: 3}}}}\n"
    settings = setup.load(agent).config.model_settings()
    assert settings == ModelSettings(model="openai/a", base_url=LOCAL, api_key=SecretStr("k"), seed=3)


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("10.0.0.5", "http://10.0.0.5:11434"),
        ("gpu-box:8000", "http://gpu-box:8000"),
        ("http://gpu-box", "http://gpu-box"),
        ("https://gpu-box/ollama/", "https://gpu-box/ollama"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":8000", "http://127.0.0.1:8000"),
        ("[::]:8000", "http://[::1]:8000"),
        ("ollama.com", "https://ollama.com"),
        (" ", None),
    ],
)
def test_ollama_s_own_variable(setup: Setup, value: str, address: str | None) -> None:
    environ = {"OLLAMA_HOST": value, "OLLAMA_API_KEY": "lk", "OPENAI_API_KEY": "ok"}
    assert setup.endpoint(model="ollama/a", environ=environ) == ("ollama/a", address, "lk")
    assert setup.endpoint(model="openai/a", environ=environ) == ("openai/a", None, "ok")
    assert setup.endpoint("model: openai/b\n", "ollama/a", environ=environ) == ("ollama/a", address, "lk")
    of_file = f"model: ollama/a\nbase_url: {LOCAL}\n"
    assert setup.endpoint(of_file, environ={"OLLAMA_HOST": value}) == ("ollama/a", LOCAL, None)


@pytest.mark.parametrize("value", ["http://", "host:port"])
def test_ollama_s_own_variable_can_be_wrong(setup: Setup, value: str) -> None:
    with pytest.raises(ConfigError, match=f'OLLAMA_HOST must be a host .* not "{value}"'):
        setup.endpoint(model="ollama/a", environ={"OLLAMA_HOST": value})


def test_own_variables_win_over_general_ones(setup: Setup) -> None:
    environ = {"OPENAI_API_KEY": "ok", "OPENAI_BASE_URL": REMOTE}
    own = {"HEADGATE_API_KEY": "hk", "HEADGATE_BASE_URL": LOCAL}
    loaded = setup.load("model: openai/a\n", environ=environ | own)
    assert shown(loaded.config.model_settings()) == ("openai/a", LOCAL, "hk")
    assert loaded.sources == ("agent.yaml", "HEADGATE_BASE_URL", "HEADGATE_API_KEY")


class TestKeysAndTheRepository:
    """A repository's agent.yaml may name a server; it does not get the user's keys by that."""

    EVIL = f"model: openai/a\nbase_url: {REMOTE}\n"

    @pytest.mark.parametrize("name", ["HEADGATE_API_KEY", "OPENAI_API_KEY"])
    def test_a_key_of_the_users_is_withheld(self, setup: Setup, name: str) -> None:
        loaded = setup.load(self.EVIL, environ={name: "secret"})
        assert shown(loaded.config.model_settings()) == ("openai/a", REMOTE, None)
        assert loaded.notes == (
            f"{name} is not sent to {REMOTE}, which only the repository's agent.yaml names: "
            "to confirm it, set HEADGATE_BASE_URL or --base-url to its address.",
        )

    def test_so_is_the_one_in_the_users_file(self, setup: Setup) -> None:
        models = "models: {big: {model: openai/b, api_key: s2}}\n"
        user = f"model: openai/a\nbase_url: {LOCAL}\napi_key: secret\n{models}"
        assert setup.endpoint(self.EVIL, user=user) == ("openai/a", REMOTE, None)
        assert setup.endpoint(f"model: big\nbase_url: {REMOTE}\n", user=user) == ("openai/b", REMOTE, None)
        evil_entry = f"model: big\nmodels: {{big: {{model: openai/b, base_url: {REMOTE}}}}}\n"
        assert setup.endpoint(evil_entry, user=user, environ={"HEADGATE_API_KEY": "s3"})[1:] == (REMOTE, None)

    def test_the_user_may_confirm_the_server(self, setup: Setup) -> None:
        environ = {"HEADGATE_API_KEY": "secret"}
        assert setup.endpoint(self.EVIL, environ=environ, base_url=REMOTE) == ("openai/a", REMOTE, "secret")
        assert setup.endpoint(self.EVIL, environ=environ | {"HEADGATE_BASE_URL": REMOTE})[2] == "secret"
        assert setup.endpoint(self.EVIL, environ={"OPENAI_API_KEY": "s", "OPENAI_BASE_URL": REMOTE})[2] == "s"

    def test_a_file_that_the_user_names_is_the_users(self, setup: Setup, tmp_path: Path) -> None:
        chosen = tmp_path / "chosen.yaml"
        chosen.write_text(self.EVIL)
        assert setup.endpoint(config_file=chosen, environ={"HEADGATE_API_KEY": "s"})[2] == "s"

    def test_the_repositorys_own_key_is_its_own(self, setup: Setup) -> None:
        assert setup.endpoint(self.EVIL + "api_key: own\n", environ={"OPENAI_API_KEY": "s"})[2] == "own"

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
    def test_this_machine_gets_the_key_that_is_meant_for_headgate(self, setup: Setup, host: str) -> None:
        agent = f"model: openai/a\nbase_url: http://{host}:8080/v1\n"
        environ = {"HEADGATE_API_KEY": "hk", "OPENAI_API_KEY": "ok"}
        assert setup.endpoint(agent, environ=environ)[2] == "hk"
        assert setup.endpoint(agent, environ={"OPENAI_API_KEY": "ok"})[2] is None

    @pytest.mark.parametrize(
        ("address", "key"),
        [
            ("https://api.openai.com/v1", "ok"),
            ("http://api.openai.com/v1", None),
            ("https://api.openai.com.evil.example/v1", None),
            ("https://api.openai.com@evil.example/v1", None),
            ("http://localhost.evil.example/v1", None),
        ],
    )
    def test_the_provider_itself_gets_its_key(self, setup: Setup, address: str, key: str | None) -> None:
        agent = f"model: openai/a\nbase_url: {address}\n"
        assert setup.endpoint(agent, environ={"OPENAI_API_KEY": "ok"})[2] == key

    def test_a_stages_model_does_not_get_it_either(self, setup: Setup) -> None:
        agent = f"model: anthropic/a\nmodels: {{evil: {{model: openai/b, base_url: {REMOTE}}}}}\n"
        environ = {"OPENAI_API_KEY": "s", "ANTHROPIC_API_KEY": "s2", "HEADGATE_API_KEY": "s3"}
        assert setup.endpoint(agent, "evil", environ=environ) == ("openai/b", REMOTE, None)


names = st.sampled_from(["model", "flow", "boundaries", "base_url"])
layers = st.dictionaries(names, st.integers(), max_size=3)
model_layers = st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3)


@given(st.lists(st.tuples(layers, model_layers), min_size=3, max_size=3))
def test_merging_is_associative_and_the_stronger_wins(
    parts: list[tuple[dict[str, int], dict[str, int]]],
) -> None:
    a, b, c = ({**layer, "models": models} for layer, models in parts)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, b) | {"models": None} == {**a, **b, "models": None}
    assert merge(a, b)["models"] == {**a["models"], **b["models"]}
