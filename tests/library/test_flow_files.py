"""Flows from YAML files, whose functions, types and tools stand in them as import paths."""

from pathlib import Path

import pytest

from headgate import Flow, run_flow_sync
from headgate.errors import ConfigError
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry

REPORT = """\
name: report
variables: {topic: bees}
stages:
  - id: gather
    prompt: Gather.
    tools: {add: ["library.functions_of_flow_files:search"], exclusive: true}
    output_type: library.functions_of_flow_files:Sources
    accept: library.functions_of_flow_files:has_some
  - {id: write, needs: [gather], prompt: Write., when: 'results.gather.items != "x"'}
  - {id: never, needs: [gather], prompt: Never., when: "code:library.functions_of_flow_files:never"}
"""


def load(tmp_path: Path, text: str) -> object:
    file = tmp_path / "flow.yaml"
    file.write_text(text)
    return Flow.load(file)


def test_a_flow_file_names_functions_types_and_tools(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(REPORT)
    replies = [
        {"calls": [{"search": {"query": "bees"}}]},
        {"calls": [{"stage_done": {"stage": "gather", "summary": "None.", "output": {"items": []}}}]},
        {"calls": [{"stage_done": {"stage": "gather", "summary": "One.", "output": {"items": ["a"]}}}]},
        {"calls": [{"stage_done": {"stage": "write", "summary": "Written."}}]},
    ]
    model = ScriptedModel([ScriptEntry.model_validate(reply) for reply in replies])
    result = run_flow_sync(Flow.load(file), model=model, input="Bees.")
    model.check_finished()
    assert [spec.name for spec in model.requests[0].tools] == ["search", "stage_done"]
    assert type(result["gather"].output).__name__ == "Sources"
    assert "There are none." in model.requests[2].messages[-1].content
    assert (result["never"].status, result["never"].error) == ("skipped", "condition")


def test_a_flow_file_names_tools_of_every_stage(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("name: f\ntools: ['library.functions_of_flow_files:search']\nstages: [{id: a}]\n")
    model = ScriptedModel([ScriptEntry.model_validate({"calls": [{"stage_done": {"summary": "Done."}}]})])
    run_flow_sync(Flow.load(file), model=model)
    assert [spec.name for spec in model.requests[0].tools] == ["think", "search", "stage_done"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stages: [{id: a, accept: 'nowhere:x'}]", "nowhere:x cannot be imported"),
        ("stages: [{id: a, accept: 'os:nothing'}]", "os:nothing cannot be imported"),
        ("stages: [{id: a, output_type: 'os:getcwd'}]", "os:getcwd is neither a type nor a JSON Schema"),
        ("stages: [{id: a, accept: 'os:sep'}]", "must be a function, not '/'"),
        ("stages: [{id: a, when: 'code:os:sep'}]", "must be a function, not '/'"),
        ("stages: [{id: g, stages: [{id: a}]}, {id: a}]", 'two stages have the id "a"'),
        ("stages: [{id: a, output_schema: {type: nothing}}]", "output_schema is not a JSON Schema"),
    ],
)
def test_mistakes_are_told_when_the_file_is_loaded(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert said in str(error.value)
