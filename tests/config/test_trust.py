"""What a repository's own file may not decide, and how a user allows it."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from headgate.config import Config, TrustedFiles, load_config
from headgate.errors import ConfigError


def load(folder: Path, agent: str, user: str = "") -> Config:
    (folder / "agent.yaml").write_text(agent)
    user_file = folder / "config" / "user.yaml"
    user_file.parent.mkdir(exist_ok=True)
    user_file.write_text(user)
    return load_config(folder, environ={}, flags={}, user_file=user_file).config


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("sandbox: off", '"sandbox: off" removes protection'),
        ("shell_env: [GITHUB_TOKEN]", '"shell_env" passes GITHUB_TOKEN to commands'),
        ("commands: {network: true}", '"commands.network" gives commands the network'),
        ("commands: {read: [~/private]}", '"commands.read" opens ~/private to commands'),
        ("commands: {write: [/run/docker.sock]}", '"commands.write" opens /run/docker.sock to commands'),
        ("commands: {processes: 100000}", '"commands.processes" raises a limit'),
        ("commands: {memory_mb: 100000}", '"commands.memory_mb" raises a limit'),
        ("approvals: never", '"approvals: never" asks for less'),
        ("allow_commands: ['*']", '"allow_commands" allows * without a question'),
        ("secret_files: [a, '!.env']", '"secret_files" shows !.env to the model'),
        ("allow_writes: ['*']", '"allow_writes" allows * without a question'),
        ("research: {backend: ddgs}", '"research.backend: ddgs" lets the model search the web'),
        ("research: {url: 'http://a.test'}", '"research.url" sends searches to http://a.test'),
        ("research: {allow_private: true}", '"research.allow_private" opens private addresses'),
        ("research: {pages: 9}", '"research.pages" raises a limit'),
        ("research: {timeout: 21}", '"research.timeout" raises a limit'),
    ],
)
def test_a_repository_cannot_give_commands_more(tmp_path: Path, agent: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, f"model: script:x\n{agent}\n")
    assert str(error.value).startswith(f"agent.yaml, line 2: {said}. A repository's file may not do")
    assert "headgate trust" in str(error.value)


@pytest.mark.parametrize(
    ("agent", "user", "expected"),
    [
        ("sandbox: bwrap", "", {"sandbox": "bwrap"}),
        ("sandbox: auto", "sandbox: off", {"sandbox": "auto"}),
        (
            "commands: {network: false, processes: 100}",
            "",
            {"commands": {"network": False, "processes": 100}},
        ),
        (
            "commands: {network: true, read: [~/a]}",
            "commands: {network: true, read: [~/a, ~/b]}",
            {"commands": {"network": True, "read": ("~/a",)}},
        ),
        ("shell_env: [CI_TOKEN]", "shell_env: [CI_TOKEN, OTHER]", {"shell_env": ("CI_TOKEN",)}),
        ("approvals: all", "approvals: commands", {"approvals": "all"}),
        ("verification: {network: false}", "", {"verification": {"network": False}}),
        ("research: {backend: off}", "research: {backend: ddgs}", {"research": {"backend": "off"}}),
        (
            "research: {pages: 1, results: 9}",
            "research: {backend: ddgs, results: 10, allow_private: true}",
            {"research": {"backend": "ddgs", "pages": 1, "results": 9, "allow_private": True}},
        ),
    ],
)
def test_it_may_take_away_and_ask_for_what_the_user_gives(
    tmp_path: Path, agent: str, user: str, expected: dict[str, Any]
) -> None:
    config = load(tmp_path, agent, user).model_dump()
    for key, value in expected.items():
        found = config[key]
        assert (found if not isinstance(value, dict) else {one: found[one] for one in value}) == value


@pytest.mark.parametrize(
    ("agent", "user"),
    [
        ("sandbox: auto", "sandbox: bwrap"),
        ("approvals: commands", "approvals: all"),
        ("approvals: writes", "approvals: commands"),
        ("approvals: writes", ""),
        ("protect_tests: off", "protect_tests: existing"),
        ('test_paths: ["!tests/**"]', "protect_tests: all"),
        ('test_paths: ["!tests/**"]', "test_paths: [tests/]"),
        ("research: {backend: ddgs}", "research: {backend: searxng, url: 'http://a.test'}"),
        ("research: {url: 'http://b.test'}", "research: {backend: searxng, url: 'http://a.test'}"),
        ("research: {results: 4}", "research: {results: 3}"),
        ("verification: {network: true}", "verification: {network: false}"),
        ("commands: {processes: 200}", "commands: {processes: 100}"),
    ],
)
def test_it_cannot_weaken_what_the_user_demands(tmp_path: Path, agent: str, user: str) -> None:
    with pytest.raises(ConfigError, match="may not do that unless you allow it"):
        load(tmp_path, agent, user)


def test_a_trusted_file_counts_as_long_as_it_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(tmp_path, "commands: {network: true}\n")
    digest = sha256(b"commands: {network: true}\n").hexdigest()
    TrustedFiles(tmp_path / "config" / "user.yaml").add(digest, tmp_path / "agent.yaml")
    load(tmp_path, "commands: {network: true}\n")
    with pytest.raises(ConfigError):
        load(tmp_path, "commands: {network: true}  # changed\n")


def test_what_the_user_closed_stays_closed(tmp_path: Path) -> None:
    user = "verification: {network: false}\nboundaries: [a]\nsecret_files: [b]\n"
    config = load(tmp_path, "verification: {steps: []}\nboundaries: []\nsecret_files: [c]\n", user)
    assert config.verification.network is False
    assert (config.boundaries, config.secret_files) == (("a",), ("c", "b"))


def test_patterns_of_a_repository_do_not_open_what_the_user_closed(tmp_path: Path) -> None:
    config = load(
        tmp_path, "boundaries: ['!db', '!a']\ntest_paths: [b]\n", "boundaries: [a, db]\ntest_paths: [c]\n"
    )
    assert config.boundaries == ("!db", "!a", "a", "db")
    assert config.test_paths == ("b", "c")


def test_a_repository_can_only_lower_the_limits_of_the_user(tmp_path: Path) -> None:
    agent = "limits: {turns: 100, seconds: 5, tokens: 7}\n"
    limits = load(tmp_path, agent, "limits: {turns: 3, seconds: 9, cost: 1.5, tokens: null}\n").limits
    assert (limits.turns, limits.seconds, limits.tokens, limits.cost) == (3, 5, 7, 1.5)
    assert load(tmp_path, "limits: {turns: null}\n", "limits: {turns: 3}\n").limits.turns == 3


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("research: {backend: searxng}", "needs `url`, such as http://localhost:8080"),
        ("research: {url: localhost}", '"research.url" must be an address such as'),
        ("research: {url: 'http://me:pw@a.test'}", '"research.url" must hold no user name or password'),
        ("research: {backend: google}", "backend"),
        ("research: {result: 3}", 'did you mean "results"'),
        ("research: {timeout: .inf}", "timeout"),
        ("research: {pages: 11}", "pages"),
    ],
)
def test_what_research_cannot_be_configured_with(tmp_path: Path, user: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, "model: script:x\n", user)
    assert said in str(error.value)
    assert "me:pw" not in str(error.value)
