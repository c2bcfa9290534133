"""What a task is stored with: the models it asks, where they are, and the steps that verify it."""

from pathlib import Path
from typing import Any

import pytest

from headgate.config import load_config
from headgate.core import Event, Flow, Model, Options, Recipe, ReplyFailed, Stage
from headgate.engine.flow_models import requests_made
from headgate.engine.resolved import ResolvedConfig, resolve
from headgate.log import Folder
from headgate.models import ScriptedModel

STEPS = "verification: {steps: [{name: a, command: make a}, {name: b, command: make b}]}\n"
LOCAL = "http://localhost:11434"


def load(repo: Path, text: str, given: dict[str | None, Model] | None = None, **flags: Any) -> ResolvedConfig:
    (repo / "agent.yaml").write_text(text)
    loaded = load_config(repo, environ={}, flags=flags, user_file=repo / "none.yaml")
    return resolve(loaded, Options(), "", Folder(repo), given or {})


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("model: ollama/a\n", {}),
        (f"model: ollama/a\nbase_url: {LOCAL}\n", {}),
        ("model: openai/gpt-4o\n", {"model": "ollama/a", "base_url": f"{LOCAL}/v1/"}),
        ("model: mine\nmodels: {mine: {model: ollama/a}}\n", {}),
    ],
)
def test_one_model_is_the_same_wherever_it_is_named(tmp_path: Path, text: str, flags: dict[str, str]) -> None:
    assert load(tmp_path, text, **flags).servers == (("ollama/a", LOCAL),)


def test_every_model_of_a_flow_is_named_once(tmp_path: Path) -> None:
    stages = "flow: [{id: a, prompt: A., model: ollama/b}, {id: b, prompt: B., model: ollama/a}]\n"
    text = f"model: ollama/a\n{stages}"
    assert load(tmp_path, text).servers == (("ollama/a", LOCAL), ("ollama/b", LOCAL))
    assert load(tmp_path, text, {None: ScriptedModel([], name="script:x")}).servers[0] == ("script:x", "")


@pytest.mark.parametrize(("flow", "steps"), [("flat", ("make a", "make b")), ("ask", ())])
def test_only_a_flow_that_verifies_has_steps(tmp_path: Path, flow: str, steps: tuple[str, ...]) -> None:
    resolved = load(tmp_path, f"model: ollama/a\nflow: {flow}\n{STEPS}")
    assert resolved.task_fields(tmp_path, Options())["steps"] == steps


def test_requests_of_steps_are_counted_for_the_model_that_answered_them() -> None:
    steps = [{"id": "one"}, {"id": "two", "model": "large"}]
    recipe = Recipe.model_validate({"name": "try", "description": "Try.", "model": "small", "stages": steps})
    stages = (Stage(id="planner", kind="planner"),)
    flow = Flow(name="f", stages=stages, recipes={"try": recipe})
    paths = ["planner", "planner/try-1/try-1.one", "planner/try-1/try-1.two", "planner/try-2/try-2.two"]
    failed = ReplyFailed(error="unavailable", detail="No answer.")
    past = [Event(number, "t1", path, 1, 0.0, failed) for number, path in enumerate(paths, 1)]
    assert [requests_made(past, flow, name) for name in (None, "small", "large")] == [1, 1, 2]
