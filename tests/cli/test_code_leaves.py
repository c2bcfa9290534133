"""`run`, `ask` and `submit` say it before code goes to another machine."""

from pathlib import Path

import pytest
from command import headgate
from loopback import listing

AWAY = "http://192.0.2.2:18999"  # reserved for documentation: no machine has it
SENDS = f"agent.yaml in this repository sends the code that tasks read to {AWAY}."
CONFIG = f"task_flow_mode: flat\nmodel: ollama/a\nbase_url: {AWAY}\ntool_transport: native\n"


@pytest.mark.parametrize("command", ["run", "ask"])
def test_a_task_that_sends_code_away_says_so_first(repo: Path, command: str) -> None:
    (repo / "agent.yaml").write_text(CONFIG)
    with listing({}) as proxy:  # it refuses what goes out, so nothing does
        said = headgate(repo, command, "Do it.", HTTP_PROXY=proxy).stderr
    assert SENDS in said
    flow = "flat" if command == "run" else "ask"
    assert f"Task t1 started: {flow} flow, ollama/a at {AWAY}" in said
    assert said.index(SENDS) < said.index("Task t1 started")


def test_a_task_that_is_queued_says_so_too(repo: Path) -> None:
    (repo / "agent.yaml").write_text(CONFIG)
    done = headgate(repo, "submit", "--no-start", "Do it.")
    assert done.stdout == "t1\n"
    assert done.stderr.splitlines()[:-1] == [SENDS, f"Task t1 will use ollama/a at {AWAY}."]
    own = headgate(repo, "submit", "--no-start", "Do it.", OLLAMA_HOST=AWAY)
    assert own.stderr.splitlines()[:-1] == [f"Task t2 will use ollama/a at {AWAY}."]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            "anthropic/c",
            "anthropic/c needs a key, and there is none: set ANTHROPIC_API_KEY or HEADGATE_API_KEY.",
        ),
        ("openai/qwen3-coder", 'OpenAI has no model "qwen3-coder", and no other server is named.'),
    ],
)
@pytest.mark.parametrize("command", ["run", "ask", "submit"])
def test_a_hosted_model_that_cannot_be_meant_is_noticed_at_once(
    repo: Path, command: str, model: str, told: str
) -> None:
    done = headgate(repo, command, "--model", model, "Do it.", OPENAI_API_KEY="sk-hosted")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"headgate: {told}")
    assert headgate(repo, "tasks", "--json").stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["run", "ask", "submit", "doctor"])
def test_every_form_of_a_model_is_in_the_help(repo: Path, command: str) -> None:
    words = " ".join(headgate(repo, command, "--help").stdout.split())
    assert "ollama/NAME, openai/NAME, anthropic/NAME, script:FILE or a name from `models`." in words
