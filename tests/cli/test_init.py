"""`headgate init`."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.init import command, render_config
from headgate.config.detect import Detection, detect_project
from headgate.config.load import load_config
from headgate.config.schema import Config
from headgate.config.yamlfile import parse_yaml
from headgate.core.settings import VerifyStep
from headgate.errors import ConfigError


def git(*args: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *args],
        cwd=cwd,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git("init", "-q", cwd=folder)
    return folder


def init(repo: Path, *argv: str) -> Result:
    return CliRunner().invoke(command, ["--repo", str(repo), *argv])


def load(repo: Path) -> Config:
    nowhere = repo / "no-user-file.yaml"
    return load_config(repo, config_file=None, environ={}, flags={}, user_file=nowhere).config


def test_what_was_seen_is_written_and_said(repo: Path) -> None:
    (repo / "go.mod").write_text("module m\n")
    result = init(repo)
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "Found Go (go.mod).",
            "Wrote agent.yaml:",
            "  vet: go vet ./...",
            "  tests: go test ./...",
            "Next: Name a model in agent.yaml or in HEADGATE_MODEL. "
            'Run "headgate doctor" to check, then headgate run "what to do".',
        ],
    )
    config = load(repo)
    assert config.model is None
    assert config.verification.steps == detect_project(repo).steps


def test_a_model_is_written(repo: Path) -> None:
    assert init(repo, "--model", "openai/a: b #c").exit_code == 0
    assert load(repo).model == "openai/a: b #c"
    assert isinstance(init(repo, "--force", "--model", "gpt").exception, ConfigError)


def test_a_server_s_name_is_no_provider(repo: Path) -> None:
    assert str(init(repo, "--model", "ollama/qwen3").exception) == (
        'There is no provider "ollama": write openai/qwen3 and base_url http://localhost:11434/v1.'
    )


def test_several_projects_are_left_to_the_user(repo: Path) -> None:
    for name in ("a", "b"):
        (repo / name).mkdir()
        (repo / name / "go.mod").write_text("module m\n")
    lines = init(repo).output.splitlines()
    assert lines[:2] == ["Found Go (a/go.mod).", "Found Go (b/go.mod)."]
    assert lines[3:6] == [
        "Wrote agent.yaml.",
        "Left out, and in agent.yaml as comments:",
        "  a-vet: cd a && go vet ./...",
    ]
    assert load(repo).verification.steps == ()
    text = (repo / "agent.yaml").read_text()
    uncommented = (
        text.replace("  steps: []\n", "  steps:\n").replace("    # ", "    ").replace("    #   ", "      ")
    )
    steps = Config.model_validate(parse_yaml(uncommented, "agent.yaml").data).verification.steps
    assert [step.name for step in steps] == ["a-vet", "a-tests", "b-vet", "b-tests"]


def test_a_file_that_cannot_be_written_is_named(repo: Path) -> None:
    (repo / "agent.yaml").write_text("model: openai/mine\n")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$0" -m headgate init --force', sys.executable],
        cwd=repo,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"headgate: {repo / 'agent.yaml'} cannot be written: File too large.\n"
    assert (repo / "agent.yaml").read_text() == "model: openai/mine\n"


def test_without_git_nothing_is_written(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    assert str(init(repo).exception).startswith("git is not installed")
    assert not (repo / "agent.yaml").exists()


def test_nothing_known_leaves_an_empty_verification(repo: Path) -> None:
    assert "No known kind of project was seen" in init(repo).output
    assert load(repo).verification.steps == ()


def test_an_old_file_is_only_overwritten_by_force(repo: Path) -> None:
    path = repo / "agent.yaml"
    path.write_text("model: openai/mine\n")
    path.chmod(0o600)
    refused = init(repo)
    assert str(refused.exception) == f"{path} exists already: use --force to overwrite it."
    assert path.read_text() == "model: openai/mine\n"
    assert "Rewrote agent.yaml" in init(repo, "--force").output
    assert load(repo).model is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(item.name for item in repo.iterdir()) == [".git", "agent.yaml"]


def test_what_is_no_file_is_left_alone(repo: Path) -> None:
    (repo / "agent.yaml").mkdir()
    assert str(init(repo, "--force").exception).endswith("is not a regular file: move it away first.")


def test_headgates_folder_is_kept_out_of_git_once(repo: Path) -> None:
    init(repo)
    init(repo, "--force")
    lines = (repo / ".git" / "info" / "exclude").read_text().splitlines()
    assert lines.count("/.headgate/") == 1


def test_in_a_worktree_too(repo: Path, tmp_path: Path) -> None:
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repo)
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=repo)
    init(tmp_path / "tree")
    assert "/.headgate/" in (repo / ".git" / "info" / "exclude").read_text().splitlines()


steps = st.builds(
    VerifyStep,
    name=st.text(min_size=1, max_size=10),
    command=st.text(min_size=1, max_size=30),
    timeout=st.integers(1, 10_000).map(float),
)


@given(st.lists(steps, max_size=3).map(tuple), st.none() | st.text(min_size=1, max_size=20))
def test_whatever_is_written_can_be_read(found: tuple[VerifyStep, ...], model: str | None) -> None:
    document = parse_yaml(render_config(Detection(steps=found), model), "agent.yaml")
    config = Config.model_validate(document.data)
    assert (config.verification.steps, config.model) == (found, model)


@pytest.mark.parametrize("name", ["agent.yml", "agent.json"])
def test_a_configuration_of_another_name_is_not_joined_by_a_second_one(repo: Path, name: str) -> None:
    (repo / name).write_text("{}")
    refused = init(repo, "--force")
    assert str(refused.exception) == (
        f"{name} configures this repository already: edit it, or remove it first."
    )
    assert not (repo / "agent.yaml").exists()
