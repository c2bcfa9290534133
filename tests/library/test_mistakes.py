"""What a program is told about its mistakes: one sentence that names the place."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import Callbacks, Checkpoint, Flow, FlowResult, Stage, run_flow_sync, tool
from headgate.errors import ConfigError
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry


@tool
def count(text: str) -> int:
    """Count words."""
    return len(text.split())


def flow(*stages: Any, **more: Any) -> Flow:
    return Flow(name="report", stages=stages or [Stage(id="a", prompt="Go.")], **more)


def stage(**more: Any) -> Flow:
    return flow(Stage(id="a", prompt="Go."), Stage(id="b", prompt="Go.", **more))


def script() -> ScriptedModel:
    return ScriptedModel([ScriptEntry.model_validate({"calls": [{"stage_done": {"summary": "Done."}}]})])


def run(what: Any = None, **more: Any) -> FlowResult:
    return run_flow_sync(what or flow(), **{"model": script(), **more})


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: stage(options={"budgett": 1}), ', stage "b": unknown key "budgett": did you mean "budget"?'),
        (
            lambda: stage(options={"budget": {"turn": 1}}),
            'stage "b", budget: unknown key "turn": did you mean "turns"?',
        ),
        (lambda: stage(needs=["aa"]), ', stage "b", needs: unknown stage "aa": did you mean "a"?'),
        (lambda: stage(needs="a"), ', stage "b": "needs" must be a list.'),
        (lambda: stage(agent="cheap"), ', stage "b": "agent" must be a dict.'),
        (lambda: stage(max_retries="two"), ', stage "b": "max_retries" must be a whole number.'),
        (lambda: stage(on_error="rety"), ', stage "b": `on_error` must be retry, skip or fail.'),
        (lambda: stage(kind="drvie"), 'stage "b": unknown kind "drvie": did you mean "drive"?'),
        (lambda: stage(tool_mode="only"), "stage \"b\": tool_mode must be extend or exclusive, not 'only'."),
        (lambda: stage(accept=True), 'stage "b": accept must be a function, not True.'),
        (lambda: stage(tools=count), 'stage "b": tools must be a list of functions'),
        (lambda: stage(output_schema=5), "is neither a type nor a JSON Schema"),
        (lambda: stage(output_schema="papers:Sources"), "is neither a type nor a JSON Schema"),
        (lambda: stage(output_schema={"type": "nothing"}), "output_schema is not a JSON Schema"),
        (lambda: stage(when="code:papers:wanted"), "papers:wanted is a name: give the function"),
        (lambda: stage(options={"output_type": "papers:Sources"}), "papers:Sources is a name"),
        (lambda: stage(options={"prompt": "Stop."}), "give `prompt` as an argument, not in `options`"),
        (lambda: stage(metadata={"call": print}), "variables and metadata must be plain data"),
        (lambda: flow(Stage(id="g", stages=[Stage(id="a")]), Stage(id="a")), 'two stages have the id "a"'),
        (lambda: flow(Stage(id="a b")), 'stage "a b": "id" must match'),
        (lambda: flow({"id": "a"}), "a stage must be a Stage(...), not {'id': 'a'}."),
        (lambda: Flow(name="report", stages=Stage(id="a")), "stages must be a list"),  # type: ignore[arg-type]
        (lambda: flow(options={"chekcs": []}), 'Flow "report": unknown key "chekcs": did you mean "checks"?'),
        (lambda: Checkpoint(storage="redis"), "is memory, file or custom, not 'redis'."),  # type: ignore[arg-type]
        (lambda: run({"id": "a"}), "A flow must be a Flow(...), or come from Flow.load, not {'id': 'a'}."),
        (lambda: run(modle="m"), 'unknown option "modle": did you mean "model"?'),
        (lambda: run(input=5), "`input` must be a str, not 5."),
        (lambda: run(model=5), "A model is a name such as openai/qwen3-coder, not 5."),
        (lambda: run(limits={"turns": 5}), "`limits` must be a Limits"),
        (lambda: run(callbacks={"on_start": print}), "`callbacks` must be a Callbacks"),
        (lambda: run(checkpoint="a.jsonl"), "`checkpoint` must be a Checkpoint, not 'a.jsonl'."),
        (lambda: run(stage(model="cheap")), 'A stage names the model "cheap", which `models` does not have'),
        (lambda: run(stage(variables={"A": object()})), "variables and metadata must be plain data"),
        (lambda: run(workspace="/nowhere"), "The workspace /nowhere is not a folder: create it first."),
        (lambda: run(repo="/nowhere"), '/nowhere is not in a git repository: run "git init" there'),
    ],
)
def test_a_mistake_is_one_sentence(build: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build()
    assert said in str(caught.value)
    assert not str(caught.value).endswith(("..", "?."))


def test_another_flow_is_told_apart_from_the_saved_one(tmp_path: Path) -> None:
    path = tmp_path / "saved.jsonl"
    run(checkpoint=Checkpoint(path=str(path)))
    others = {
        'that one has no stage "b"': stage(),
        'the stage "a" differs in prompt': flow(Stage(id="a", prompt="Stop.")),
        "in accept; a function or type": flow(Stage(id="a", prompt="Go.", accept=lambda _: True)),
        'which is called "report"': Flow(name="other", stages=[Stage(id="a", prompt="Go.")]),
    }
    for said, other in others.items():
        with pytest.raises(ConfigError) as caught:
            Flow.restore(path, other)
        assert said in str(caught.value)


def test_what_cannot_be_saved_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()

    def fail(stage: str) -> None:
        raise ValueError(stage)

    with caplog.at_level(logging.ERROR):
        run(
            checkpoint=Checkpoint(path=str(tmp_path / "file" / "a.jsonl")), callbacks=Callbacks(on_start=fail)
        )
    told = {record.getMessage(): record.exc_info for record in caplog.records}
    assert told.pop("A callback of a flow failed: ValueError: a")
    assert [exc_info for said, exc_info in told.items() if "a.jsonl cannot be written" in said] == [None]


def test_a_module_that_cannot_be_imported_is_named_with_its_stage(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    for reference, said in {
        "json.nothing": "json.nothing is not an import path: write package.module:name.",
        "json:nothing": "json:nothing cannot be imported: module 'json' has no attribute 'nothing'.",
        "os:sep": "accept must be a function, not '/'.",
    }.items():
        path.write_text(f"stages: [{{id: a, prompt: Go., accept: '{reference}'}}]")
        with pytest.raises(ConfigError) as caught:
            Flow.load(path)
        assert str(caught.value) == f'flow.yaml, stage "a": {said}'
