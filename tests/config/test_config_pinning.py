"""What a task is submitted with: what is stored, what is not, and what comes out again."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from headgate.config import Loaded, config_files, load_config, pin, unpin
from headgate.core import Flow, ModelSettings, Stage
from headgate.errors import ConfigError

FLOW = Flow(name="own", stages=(Stage(id="a", prompt="Do it."),))
USER = """
base_url: http://mine.example/v1
api_key: sk-of-the-user
models:
  cheap:
    {model: openai/small, base_url: "http://cheap.example/v1", api_key: sk-cheap, headers: {X-Token: tok-1}}
"""
REPOSITORY = """
model: openai/big
boundaries: ["db/**"]
models:
  quiet: {model: openai/q, api_key: sk-in-the-repository, extra_body: {think: false}, headers: {X-Org: org-1}}
"""


@dataclass
class Place:
    """A repository and a user's own file."""

    repo: Path
    user: Path

    def load(self, **environ: str) -> Loaded:
        return load_config(self.repo, environ=environ, flags={}, user_file=self.user)

    def pin(self, **environ: str) -> str:
        return pin(self.load(**environ), FLOW, environ)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "repo", tmp_path / "config.yaml")
    place.repo.mkdir()
    place.user.write_text(USER)
    (place.repo / "agent.yaml").write_text(REPOSITORY)
    return place


def test_what_comes_out_is_what_went_in(place: Place) -> None:
    loaded = place.load(HEADGATE_API_KEY="sk-env")
    found = unpin(place.pin(), {"HEADGATE_API_KEY": "sk-env"}, {})
    assert found.flow == FLOW
    assert found.loaded.config == loaded.config
    assert (found.loaded.sources, found.loaded.notes) == (loaded.sources, loaded.notes)
    for name in (None, "cheap", "quiet"):
        assert found.loaded.config.model_settings(name) == loaded.config.model_settings(name)


def test_no_key_is_stored(place: Place) -> None:
    stored = place.pin(HEADGATE_API_KEY="sk-env", OPENAI_API_KEY="sk-env", ANTHROPIC_API_KEY="sk-env")
    assert "sk-" not in stored
    assert [word for word in ("tok-1", "org-1", "think") if word in stored] == []


@pytest.mark.parametrize("name", ["HEADGATE_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"])
def test_a_password_in_an_address_of_the_environment_is_refused(place: Place, name: str) -> None:
    loaded = place.load(HEADGATE_MODEL="script:a.yaml")
    with pytest.raises(ConfigError) as caught:
        pin(loaded, FLOW, {"HEADGATE_MODEL": "script:a.yaml", name: "https://user:hunter2@b.example/v1"})
    assert str(caught.value) == f"{name} must hold no user name or password; use api_key or headers."


def test_a_password_in_an_address_of_a_file_or_an_option_is_refused(place: Place) -> None:
    (place.repo / "agent.yaml").write_text(
        "models: {a: {model: openai/x, base_url: 'http://u:hunter2@b/v1'}}"
    )
    with pytest.raises(ConfigError, match=r"base_url in agent\.yaml must hold no user name or password"):
        place.pin()
    flags = {"base_url": "http://u:hunter2@b/v1"}
    with pytest.raises(ConfigError, match="option --base-url must hold no user name or password"):
        load_config(place.repo, environ={}, flags=flags, user_file=place.user)


def test_only_the_settings_that_were_withheld_are_read_again(place: Place) -> None:
    stored = place.pin()
    added = "api_key: sk-cheap, extra_body: {added: later}"
    place.user.write_text(USER.replace("api_key: sk-cheap", added).replace("tok-1", "tok-2"))
    settings = unpin(stored, {}, {}).loaded.config.model_settings("cheap")
    assert (settings.headers, settings.extra_body) == ({"X-Token": "tok-2"}, {})


def key_of(settings: ModelSettings) -> str:
    return settings.api_key.get_secret_value() if settings.api_key else ""


def test_the_environment_s_choices_are_kept_and_its_keys_are_not(place: Place) -> None:
    stored = place.pin(HEADGATE_MODEL="openai/first", OPENAI_BASE_URL="http://first.example/v1")
    later = {"HEADGATE_MODEL": "openai/other", "HEADGATE_BASE_URL": "http://first.example/v1"}
    settings = unpin(stored, {**later, "HEADGATE_API_KEY": "sk-later"}, {}).loaded.config.model_settings()
    assert (settings.model, settings.base_url) == ("openai/first", "http://first.example/v1")
    assert key_of(settings) == "sk-later"


SERVER_B = {"HEADGATE_BASE_URL": "https://b.example/v1"}
KEYS_OF_A = {"HEADGATE_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-a-too"}


@pytest.mark.parametrize(
    "server_a", [{}, {"HEADGATE_BASE_URL": "https://a.example/v1"}, {"HEADGATE_BASE_URL": "nonsense"}]
)
def test_a_key_in_the_environment_goes_only_where_that_environment_sends_it(
    place: Place, server_a: dict[str, str]
) -> None:
    place.user.unlink()
    stored = place.pin(**SERVER_B, HEADGATE_API_KEY="sk-b")
    with pytest.raises(ConfigError) as caught:
        unpin(stored, {**KEYS_OF_A, **server_a}, {})
    assert str(caught.value) == (
        "HEADGATE_API_KEY is not sent to https://b.example/v1, which the task was submitted for, because "
        "this process's environment chooses another server: resume the task in a shell whose environment "
        "chooses that one."
    )
    settings = unpin(stored, {**KEYS_OF_A, **SERVER_B}, {}).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == ("https://b.example/v1", "sk-a")
    # A server that needed no key when the task was submitted needs none now.
    settings = unpin(place.pin(**SERVER_B), {**KEYS_OF_A, **server_a}, {}).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == ("https://b.example/v1", "")


def test_the_provider_s_own_key_goes_to_the_provider_and_another_server_s_key_does_not(place: Place) -> None:
    place.user.unlink()
    stored = place.pin(OPENAI_API_KEY="sk-b")
    settings = unpin(stored, {**KEYS_OF_A, **SERVER_B}, {}).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == (None, "sk-a-too")
    settings = unpin(stored, KEYS_OF_A, {}).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == (None, "sk-a")


def test_a_key_goes_to_the_server_that_an_option_or_a_file_names(place: Place) -> None:
    flags = {"base_url": "https://flag.example/v1"}
    settings = unpin(place.pin(), KEYS_OF_A, flags).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == ("https://flag.example/v1", "sk-a")
    settings = unpin(place.pin(), KEYS_OF_A, {}).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == ("http://mine.example/v1", "sk-a")


def test_the_file_s_key_is_used_where_the_environment_s_is_withheld(place: Place) -> None:
    mine = {"HEADGATE_BASE_URL": "http://mine.example/v1", "HEADGATE_API_KEY": "sk-b"}
    elsewhere = {**KEYS_OF_A, "HEADGATE_BASE_URL": "https://a.example/v1"}
    settings = unpin(place.pin(**mine), elsewhere, {}).loaded.config.model_settings()
    assert (settings.base_url, key_of(settings)) == ("http://mine.example/v1", "sk-of-the-user")


def test_the_host_of_ollama_is_the_one_of_the_submission(place: Place) -> None:
    place.user.unlink()
    (place.repo / "agent.yaml").write_text("model: ollama/m\n")
    stored = place.pin(OLLAMA_HOST="first.example:11434")
    for later in ({}, {"OLLAMA_HOST": "other.example:11434", "OLLAMA_API_KEY": "sk-other"}):
        settings = unpin(stored, later, {}).loaded.config.model_settings()
        assert (settings.base_url, key_of(settings)) == ("http://first.example:11434", "")
    settings = unpin(place.pin(), {"OLLAMA_HOST": "other.example:11434"}, {}).loaded.config.model_settings()
    assert settings.base_url is None


def test_the_models_of_stages_get_no_key_for_another_server_either(place: Place) -> None:
    place.user.unlink()
    flow = Flow(name="own", stages=(Stage(id="a", prompt="Do it.", model="openai/small"),))
    environ = {"HEADGATE_MODEL": "anthropic/big", "OPENAI_BASE_URL": "https://b.example/v1"}
    stored = pin(place.load(**environ), flow, environ)
    config = unpin(stored, KEYS_OF_A, {}).loaded.config
    assert key_of(config.model_settings("openai/small")) == ""
    config = unpin(stored, {**KEYS_OF_A, "OPENAI_BASE_URL": "https://b.example/v1"}, {}).loaded.config
    assert key_of(config.model_settings("openai/small")) == "sk-a-too"


def test_files_are_not_read_again_where_they_hold_no_key(place: Place) -> None:
    place.user.unlink()
    (place.repo / "agent.yaml").write_text('boundaries: ["db/**"]\n')
    stored = place.pin()
    (place.repo / "agent.yaml").write_text("{")
    assert unpin(stored, {}, {}).loaded.config.boundaries == ("db/**",)


def test_a_key_is_read_again_for_the_server_that_it_was_written_for(place: Place) -> None:
    stored = place.pin()
    place.user.write_text(USER.replace("sk-cheap", "sk-renewed"))
    settings = unpin(stored, {}, {}).loaded.config.model_settings("cheap")
    assert settings == ModelSettings(
        model="openai/small",
        base_url="http://cheap.example/v1",
        api_key="sk-renewed",  # type: ignore[arg-type]
        headers={"X-Token": "tok-1"},
    )
    place.user.write_text(USER.replace("cheap.example", "elsewhere.example"))
    with pytest.raises(ConfigError) as caught:
        unpin(stored, {}, {})
    assert str(caught.value) == (
        f'{place.user} has changed the model "cheap" since the task was submitted, and the key is not '
        "stored: submit the task again."
    )
    place.user.write_text(USER.replace("mine.example", "elsewhere.example"))
    with pytest.raises(ConfigError, match="has changed the model's server since"):
        unpin(stored, {}, {})


def test_a_server_that_only_the_repository_names_still_gets_no_key_of_the_user(place: Place) -> None:
    place.user.unlink()
    (place.repo / "agent.yaml").write_text("model: openai/m\nbase_url: http://evil.example/v1\n")
    found = unpin(place.pin(), {"HEADGATE_API_KEY": "sk-env"}, {}).loaded
    assert found.config.model_settings().api_key is None
    assert "is not sent to http://evil.example/v1" in found.notes[0]


@pytest.mark.parametrize("text", ["", "{}", '{"flow": 5}'])
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match="this one cannot read it: submit the task again"):
        unpin(text, {}, {})


ALWAYS = {"agent.yaml", "agent.yml", "agent.json", ".headgate/commands", ".headgate/commands/"}


def protected(place: Place, text: str, **given: str) -> set[str]:
    (place.repo / "agent.yaml").write_text(text)
    return set(config_files(place.repo, place.load(), **given)) - ALWAYS


def test_which_files_configure_headgate(place: Place) -> None:
    assert set(config_files(place.repo, place.load())) == ALWAYS
    assert protected(place, "flow: staged\n") == set()
    assert protected(place, "flow: flows/../own.yaml\n") == {"own.yaml"}
    assert protected(place, f"flow: [one.yaml, 'Do it.', {{file: {place.repo}/two.yml}}]\n") == {
        "one.yaml",
        "two.yml",
    }
    assert protected(place, "flow: /elsewhere/own.yaml\n") == set()
    assert protected(place, "{}\n", flow=f"{place.repo}/given.yaml") == {"given.yaml"}
    (place.repo / "agent.yaml").write_text("flow: own.yaml\nallow_config_edits: true\n")
    assert config_files(place.repo, place.load()) == ()


def test_the_user_s_own_file_is_protected_where_it_is_in_the_repository(place: Place) -> None:
    place.user = place.repo / ".config" / "headgate" / "config.yaml"
    place.user.parent.mkdir(parents=True)
    place.user.write_text(USER)
    assert protected(place, "{}\n") == {".config/headgate/config.yaml"}


def test_the_user_s_own_file_cannot_open_the_configuration_to_tasks(place: Place) -> None:
    place.user.write_text("allow_config_edits: true\n")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value) == (
        f"{place.user}, line 1: allow_config_edits belongs in the repository's agent.yaml or a file given "
        "with --config: remove it here."
    )
    other = place.repo / "other.yaml"
    other.write_text("allow_config_edits: true\n")
    place.user.unlink()
    loaded = load_config(place.repo, config_file=other, environ={}, flags={}, user_file=place.user)
    assert config_files(place.repo, loaded, config=str(other)) == ()


def test_another_configuration_file_leaves_the_repository_s_own_protected(place: Place) -> None:
    (place.repo / "agent.yaml").write_text("flow: own.yaml\n")
    other = place.repo / "ci" / "other.yaml"
    other.parent.mkdir()
    other.write_text("flow: ci/flow.yaml\n")
    loaded = load_config(place.repo, config_file=other, environ={}, flags={}, user_file=place.user)
    found = config_files(place.repo, loaded, config=str(other))
    assert set(found) == {
        *ALWAYS,
        *("ci/other.yaml", "ci/flow.yaml", "own.yaml"),
    }
    (place.repo / "agent.yaml").write_text("{")
    assert "own.yaml" not in config_files(place.repo, loaded, config=str(other))


def test_symlinks_and_what_they_lead_to(place: Place) -> None:
    (place.repo / "real" / "flows").mkdir(parents=True)
    (place.repo / "real" / "config.yaml").write_text("flow: flows/own.yaml\n")
    (place.repo / "agent.yaml").unlink()
    (place.repo / "agent.yaml").symlink_to("real/config.yaml")
    (place.repo / "flows").symlink_to("real/flows")
    (place.repo / "real" / "flows" / "own.yaml").symlink_to("/outside/own.yaml")
    (place.repo / "agent.json").symlink_to("agent.json")  # leads to itself, and nowhere
    loaded = load_config(
        place.repo,
        config_file=place.repo / "agent.yaml",
        environ={},
        flags={},
        user_file=place.user,
    )
    assert set(config_files(place.repo, loaded)) == {
        *("agent.yaml", "real/config.yaml", "agent.yml", "agent.json"),
        *("flows", "real/flows/own.yaml"),
        *(".headgate/commands", ".headgate/commands/"),
    }
