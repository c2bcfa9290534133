"""`headgate init`."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command import on_terminal
from hypothesis import given
from hypothesis import strategies as st
from loopback import listing

from headgate.cli.commands.init import command, render_config
from headgate.cli.model_choice import addresses_to_ask
from headgate.config import Config, Detection, detect_project, load_config, parse_yaml
from headgate.core import VerifyStep
from headgate.errors import ConfigError
from headgate.models.servers import USUAL_ADDRESSES

NOTHING = (
    "No model server answered on this machine. Headgate looked for Ollama, llama.cpp, vLLM and LM Studio."
)
START = (
    "Start a model server, for example Ollama with `ollama serve`. Get a model, for example with "
    "`ollama pull qwen3:8b`. Then run headgate init again, or name a model in agent.yaml. "
    "headgate demo shows a task without a model."
)
CHECK = 'Run "headgate doctor" to check, then headgate run "what to do".'


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


def init(repo: Path, *argv: str, **env: str) -> Result:
    own = {"HEADGATE_SERVERS": "", "XDG_CONFIG_HOME": str(repo.parent / "config")}
    for name in (
        "HEADGATE_MODEL",
        "HEADGATE_BASE_URL",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
    ):
        own[name] = ""
    return CliRunner().invoke(command, ["--repo", str(repo), *argv], env={**own, **env})


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
            NOTHING,
            "Wrote agent.yaml:",
            "  vet: go vet ./...",
            "  tests: go test ./...",
            f"Next: {START} {CHECK}",
        ],
    )
    config = load(repo)
    assert config.model is None
    assert config.verification.steps == detect_project(repo).steps


def test_a_model_is_written(repo: Path) -> None:
    assert init(repo, "--model", "openai/a: b #c", "--base-url", "http://localhost:9/v1").exit_code == 0
    assert (load(repo).model, load(repo).base_url) == ("openai/a: b #c", "http://localhost:9/v1")
    assert isinstance(init(repo, "--force", "--model", "gpt").exception, ConfigError)


def test_a_server_s_name_is_no_provider(repo: Path) -> None:
    assert str(init(repo, "--model", "lmstudio/qwen3").exception) == (
        'There is no provider "lmstudio": write openai/qwen3 and base_url http://localhost:1234/v1.'
    )


def test_a_local_name_is_not_left_to_a_hosted_service(repo: Path) -> None:
    """A key in the environment does not change that."""
    refused = init(repo, "--model", "openai/qwen3-coder", OPENAI_API_KEY="sk-hosted")
    assert isinstance(refused.exception, ConfigError)
    assert str(refused.exception).startswith(
        'OpenAI has no model "qwen3-coder", and no other server is named. '
        "For Ollama, write model: ollama/qwen3-coder. "
    )
    assert not (repo / "agent.yaml").exists()


@pytest.mark.parametrize(
    ("model", "root"),
    [
        ("openai/gpt-5", "https://api.openai.com/v1"),
        ("anthropic/claude-sonnet-4-5", "https://api.anthropic.com"),
    ],
)
def test_a_hosted_model_that_was_named_is_written_and_said(repo: Path, model: str, root: str) -> None:
    assert f"Tasks will send the code that they read to {root}." in init(repo, "--model", model).output
    assert (load(repo).model, load(repo).base_url) == (model, None)


def test_a_server_that_the_environment_names(repo: Path) -> None:
    url = "https://models.example/v1"
    done = init(repo, "--model", "openai/qwen3-coder", OPENAI_BASE_URL=url)
    assert f"Its server is {url} (from OPENAI_BASE_URL)." in done.output
    assert (load(repo).model, load(repo).base_url) == ("openai/qwen3-coder", None)


OLLAMA = {
    "/api/version": {"version": "0.12.6"},
    "/api/tags": {
        "models": [
            {"name": "nomic-embed-text:latest"},
            {"name": "gpt-oss:120b-cloud", "remote_host": "https://ollama.com:443"},
            {"name": "llama3.2:latest"},
            {"name": "qwen3-coder:30b"},
        ]
    },
}
LLAMACPP = {"/v1/models": {"data": [{"id": "qwen.gguf", "owned_by": "llamacpp"}]}}


def test_a_server_with_several_models(repo: Path) -> None:
    with listing(OLLAMA) as url:
        done = init(repo, HEADGATE_SERVERS=url)
    assert done.output.splitlines()[1:-1] == [
        f"Found Ollama at {url} with 4 models: nomic-embed-text:latest, gpt-oss:120b-cloud (hosted), "
        "llama3.2:latest, qwen3-coder:30b.",
        "Chose ollama/qwen3-coder:30b. To use another one: headgate init --model ollama/llama3.2:latest",
        "Wrote agent.yaml:",
        f"  model: ollama/qwen3-coder:30b at {url}",
    ]
    assert done.output.splitlines()[-1] == f"Next: {CHECK}"
    assert (load(repo).model, load(repo).base_url) == ("ollama/qwen3-coder:30b", url)


def test_a_server_with_one_model_that_is_not_ollama_s(repo: Path) -> None:
    with listing(LLAMACPP) as url:
        done = init(repo, HEADGATE_SERVERS=f"{url}, http://127.0.0.1:1")
    assert f"Found llama.cpp at {url} with 1 model: qwen.gguf." in done.output
    assert "Chose" not in done.output
    assert (load(repo).model, load(repo).base_url) == ("openai/qwen.gguf", f"{url}/v1")


def test_the_server_that_base_url_names(repo: Path) -> None:
    with listing(LLAMACPP) as url:
        done = init(repo, "--base-url", f"{url}/v1")
    assert done.exit_code == 0
    assert (load(repo).model, load(repo).base_url) == ("openai/qwen.gguf", f"{url}/v1")
    refused = init(repo, "--force", "--base-url", "http://127.0.0.1:1/v1")
    assert str(refused.exception).startswith("No model server lists its models at http://127.0.0.1:1/v1")


@pytest.mark.parametrize("named", ["openai/llama3.2", "llama3.2", "llama3.2:latest"])
def test_a_name_is_looked_for_on_this_machine(repo: Path, named: str) -> None:
    with listing(OLLAMA) as url:
        assert init(repo, "--model", named, HEADGATE_SERVERS=url).exit_code == 0
    assert (load(repo).model, load(repo).base_url) == ("ollama/llama3.2:latest", url)


def test_a_model_that_ollama_does_not_have_yet(repo: Path) -> None:
    with listing(OLLAMA) as url:
        done = init(repo, "--model", "ollama/devstral", HEADGATE_SERVERS=url)
    assert done.output.splitlines()[-1] == f"Next: Get the model with `ollama pull devstral`. {CHECK}"
    assert (load(repo).model, load(repo).base_url) == ("ollama/devstral", url)


def test_a_hosted_model_behind_ollama_is_taken_only_by_name(repo: Path) -> None:
    only = {**OLLAMA, "/api/tags": {"models": OLLAMA["/api/tags"]["models"][:2]}}
    with listing(only) as url:
        done = init(repo, HEADGATE_SERVERS=url)
        assert load(repo).model is None
        assert (
            "Get a model, for example with `ollama pull qwen3:8b`, and run headgate init again."
            in done.output
        )
        done = init(repo, "--force", "--model", "ollama/gpt-oss:120b-cloud", HEADGATE_SERVERS=url)
    assert "Ollama passes requests for this model on to a hosted service." in done.output
    assert load(repo).model == "ollama/gpt-oss:120b-cloud"


def test_only_a_hosted_key(repo: Path) -> None:
    done = init(repo, OPENAI_API_KEY="sk-hosted")
    assert done.output.splitlines()[1:] == [
        NOTHING,
        "OPENAI_API_KEY is set, but a key alone sends no code anywhere.",
        "Wrote agent.yaml.",
        "Next: To let tasks send code to OpenAI, name one of its models: headgate init --model "
        f"openai/NAME. To keep the code here, start a model server and run headgate init. {CHECK}",
    ]
    assert load(repo).model is None
    assert "\n# model: ollama/qwen3-coder\n" in (repo / "agent.yaml").read_text()


def test_a_model_of_the_user_s_own_is_left_alone(repo: Path) -> None:
    assert "The model is script:a (from HEADGATE_MODEL)." in init(repo, HEADGATE_MODEL="script:a").output
    path = repo.parent / "config" / "headgate" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("model: ollama/mine\n")
    with listing(OLLAMA) as url:
        done = init(repo, "--force", HEADGATE_SERVERS=url)
    assert f"The model is ollama/mine (from {path})." in done.output
    assert load(repo).model is None


def test_what_listens_but_is_no_model_server(repo: Path) -> None:
    with listing({"/v1/models": {"hello": 1}, "/api/version": ["0.1"]}) as url:
        assert NOTHING in init(repo, HEADGATE_SERVERS=url).output


def test_a_person_is_asked_on_a_terminal(repo: Path) -> None:
    with listing(OLLAMA) as url:
        code, shown = on_terminal(repo, "init", typed="2\n", HEADGATE_SERVERS=url)
    assert (code, "Which one should tasks use? A number or a name [1]:" in shown) == (0, True)
    assert "1  ollama/qwen3-coder:30b" in shown
    assert load(repo).model == "ollama/llama3.2:latest"


def test_a_person_can_answer_with_a_name(repo: Path) -> None:
    with listing(OLLAMA) as url:
        code, shown = on_terminal(repo, "init", typed="e\nmistral\n7\nLLama\n", HEADGATE_SERVERS=url)
    how = "Type a number from 1 to 2, or a part of a name that only one model has."
    said = " ".join(shown.split())
    assert code == 0
    assert f'Error: "e" fits ollama/qwen3-coder:30b, ollama/llama3.2:latest. {how}' in said
    assert f'Error: There is no model "mistral" in the list. {how}' in said
    assert f'Error: There is no model "7" in the list. {how}' in said
    assert load(repo).model == "ollama/llama3.2:latest"


OWN = "# mine\nverification:\n  steps:\n  - {name: t, command: 'make  t'} # how\nflow: flat\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"model: openai/a  # old\n{OWN}", f'model: "ollama/b"  # old\n{OWN}'),
        (f"{OWN}model: 'openai/a'", f'{OWN}model: "ollama/b"'),
        (
            f"{OWN}model: ollama/a\r\nbase_url: http://h:1\r\n",
            f'{OWN}model: "ollama/b"\r\nbase_url: "http://h:1"\r\n',
        ),
        (f"base_url: http://h:1/v1\nmodel: openai/a\n{OWN}", f'model: "ollama/b"\n{OWN}'),
        (f"# model: ollama/qwen3-coder\n{OWN}", f'model: "ollama/b"\n{OWN}'),
        (OWN, f'model: "ollama/b"\n{OWN}'),
        (f"---\n{OWN}", f'---\n{OWN}model: "ollama/b"\n'),
        (f"model:\n{OWN}", f'model: "ollama/b"\n{OWN}'),
        ("", 'model: "ollama/b"\n'),
    ],
)
def test_another_model_leaves_the_rest_of_the_file_alone(repo: Path, before: str, after: str) -> None:
    (repo / "agent.yaml").write_bytes(before.encode())
    done = init(repo, "--model", "ollama/b")
    assert (done.exit_code, (repo / "agent.yaml").read_bytes().decode()) == (0, after), done
    assert "Changed agent.yaml; its other lines are unchanged:\n  model: ollama/b" in done.output
    assert ("Removed base_url: http://h:1/v1" in done.output) == before.startswith("base_url")
    assert not (repo / "agent.yaml.bak").exists()


def test_an_address_is_added_or_changed_with_the_model(repo: Path) -> None:
    path = repo / "agent.yaml"
    path.write_text(f"model: ollama/a\n{OWN}")
    assert init(repo, "--model", "openai/b", "--base-url", "http://h:2/v1").exit_code == 0
    assert path.read_text() == f'model: "openai/b"\nbase_url: "http://h:2/v1"\n{OWN}'
    assert init(repo, "--model", "openai/c", "--base-url", "http://h:3/v1").exit_code == 0
    assert path.read_text() == f'model: "openai/c"\nbase_url: "http://h:3/v1"\n{OWN}'
    assert init(repo, "--model", "openai/d").exit_code == 0  # on the same server
    assert path.read_text() == f'model: "openai/d"\nbase_url: "http://h:3/v1"\n{OWN}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{model: openai/a, flow: flat}\n",
            'cannot be changed line by line: write model: "ollama/b" there by hand.',
        ),
        ("model: >\n  openai/a\n", 'cannot be changed line by line: write model: "ollama/b" there by hand.'),
        (
            "model: openai/a\napi_key: k\n",
            "has an api_key, which is not meant for ollama/b: change the model there by hand.",
        ),
    ],
)
def test_a_file_that_cannot_be_changed_safely(repo: Path, text: str, told: str) -> None:
    (repo / "agent.yaml").write_text(text)
    refused = init(repo, "--model", "ollama/b")
    assert str(refused.exception) == f"{repo / 'agent.yaml'} {told}"
    assert (repo / "agent.yaml").read_text() == text


def test_a_second_init_adds_the_model_that_was_missing(repo: Path) -> None:
    """What `init`, `run` and `doctor` advise where no server was there at first."""
    init(repo)
    with (repo / "agent.yaml").open("a") as file:
        file.write("flow: flat\n")
    refused = str(init(repo).exception)
    assert refused == f"{repo / 'agent.yaml'} already exists and stays as it is. {NOTHING} {START}"
    with listing(LLAMACPP) as url:
        assert init(repo, HEADGATE_SERVERS=url).exit_code == 0
    assert (load(repo).model, load(repo).base_url, load(repo).flow) == (
        "openai/qwen.gguf",
        f"{url}/v1",
        "flat",
    )


def test_both_hosted_keys_are_named(repo: Path) -> None:
    done = init(repo, OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY="sk-2")
    assert (
        "OPENAI_API_KEY and ANTHROPIC_API_KEY are set, but a key alone sends no code anywhere." in done.output
    )
    assert (
        "To let tasks send code to OpenAI or Anthropic, name one of their models: headgate init --model "
        "openai/NAME, or headgate init --model anthropic/NAME."
    ) in done.output


def test_where_is_looked(tmp_path: Path) -> None:
    assert addresses_to_ask({}) == list(USUAL_ADDRESSES)
    assert addresses_to_ask({"OLLAMA_HOST": "0.0.0.0:5000"})[0] == ("Ollama", "http://127.0.0.1:5000")
    assert addresses_to_ask({"HEADGATE_SERVERS": ""}) == []


def test_several_projects_are_left_to_the_user(repo: Path) -> None:
    for name in ("a", "b"):
        (repo / name).mkdir()
        (repo / name / "go.mod").write_text("module m\n")
    lines = init(repo).output.splitlines()
    assert lines[:2] == ["Found Go (a/go.mod).", "Found Go (b/go.mod)."]
    assert lines[4:7] == [
        "Wrote agent.yaml.",
        "Left out; agent.yaml has them as comments:",
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
    assert done.stderr == f"headgate: cannot write {repo / 'agent.yaml'}: File too large.\n"
    assert (repo / "agent.yaml").read_text() == "model: openai/mine\n"


def test_without_git_nothing_is_written(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    assert str(init(repo).exception).startswith("git is not installed")
    assert not (repo / "agent.yaml").exists()


def test_nothing_known_leaves_an_empty_verification(repo: Path) -> None:
    assert "No known kind of project was found" in init(repo).output
    assert load(repo).verification.steps == ()


def test_an_old_file_is_only_overwritten_by_force(repo: Path) -> None:
    path = repo / "agent.yaml"
    path.write_text("model: openai/mine\n")
    path.chmod(0o600)
    refused = init(repo)
    assert str(refused.exception) == (
        f"{path} already exists. To change its model, run headgate init --model MODEL. "
        "To replace the whole file, run headgate init --force, which keeps a copy."
    )
    assert path.read_text() == "model: openai/mine\n"
    done = init(repo, "--force").output
    assert "Rewrote agent.yaml" in done
    assert "Kept the old one as agent.yaml.bak." in done
    assert load(repo).model is None
    kept = repo / "agent.yaml.bak"
    assert kept.read_text() == "model: openai/mine\n"
    assert {file.stat().st_mode & 0o777 for file in (path, kept)} == {0o600}
    assert "Kept" not in init(repo, "--force").output  # nothing to keep: it is the same file
    path.write_text("model: openai/second\n")
    assert "Kept the old one as agent.yaml.bak2." in init(repo, "--force").output
    assert kept.read_text() == "model: openai/mine\n"
    assert (repo / "agent.yaml.bak2").read_text() == "model: openai/second\n"
    assert len(list(repo.iterdir())) == 4


def test_what_is_no_file_is_left_alone(repo: Path) -> None:
    (repo / "agent.yaml").mkdir()
    assert str(init(repo, "--force").exception).endswith("is not a regular file: move it away first.")


def test_headgates_folder_is_kept_out_of_git_once(repo: Path) -> None:
    init(repo)
    init(repo, "--force")
    lines = (repo / ".git" / "info" / "exclude").read_text().splitlines()
    assert (lines.count("/.headgate/*"), lines.count("!/.headgate/commands/")) == (1, 1)


def test_in_a_worktree_too(repo: Path, tmp_path: Path) -> None:
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repo)
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=repo)
    init(tmp_path / "tree")
    assert "/.headgate/*" in (repo / ".git" / "info" / "exclude").read_text().splitlines()


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
        f"{name} already configures this repository: edit it, or remove it first."
    )
    assert not (repo / "agent.yaml").exists()
