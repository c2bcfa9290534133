"""The outputs of stages: types of every kind, and schemas that cannot be used."""

from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass

from headgate.errors import ConfigError
from headgate.library import Flow, Stage, run_flow_sync
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry


class Colour(Enum):
    RED = "red"


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: date
    size: tuple[int, int]
    colour: Colour


@dataclass
class Point:
    x: int


def done(output: Any) -> dict[str, Any]:
    return {"calls": [{"stage_done": {"stage": "a", "summary": "Done.", "output": output}}]}


def output_of(schema: Any, *outputs: Any) -> Any:
    model = ScriptedModel([ScriptEntry.model_validate(done(output)) for output in outputs])
    result = run_flow_sync(Flow(name="f", stages=[Stage(id="a", output_schema=schema)]), model=model)
    model.check_finished()
    assert result.status == "completed"
    return result["a"].output


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (
            Strict,
            {"when": "2026-02-01", "size": [1, 2], "colour": "red"},
            Strict(when=date(2026, 2, 1), size=(1, 2), colour=Colour.RED),
        ),
        (Point, {"x": 1}, Point(1)),
        (list[int], [1, 2], [1, 2]),
        (Literal["yes", "no"], "yes", "yes"),
        (int | None, None, None),
        ({"type": ["integer", "null"]}, None, None),
        ({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}, 3, 3),
    ],
    ids=["strict", "dataclass", "list", "literal", "optional", "nullable", "reference"],
)
def test_outputs_of_every_kind(schema: Any, given: Any, expected: Any) -> None:
    assert output_of(schema, given) == expected


def test_a_schema_stays_as_it_was_given() -> None:
    """It may have an address of its own, to which what it refers to is relative."""
    schema = {
        "$id": "https://example.org/count.json",
        "$defs": {"n": {"type": "integer"}},
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
    }
    flow = Flow(name="f", stages=[Stage(id="a", output_schema=schema)])
    assert schema["properties"] == {"n": {"$ref": "#/$defs/n"}}
    assert flow.compiled.flow.stages[0].output_schema == schema
    assert output_of(schema, {"n": "one"}, {"n": 1}) == {"n": 1}


def test_what_a_schema_cannot_refer_to(tmp_path: Path) -> None:
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text('{"type": "integer"}')
    for address in (elsewhere.as_uri(), "http://127.0.0.1:9/schema.json", "schema.json", "other:schema"):
        with pytest.raises(
            ConfigError, match=r'stage "a": output_schema is not a JSON Schema: .*(fetched|other)'
        ):
            Flow(name="f", stages=[Stage(id="a", output_schema={"$ref": address})])


def test_a_pattern_that_cannot_be_read_is_told() -> None:
    with pytest.raises(ConfigError, match="not a JSON Schema: missing"):
        Flow(name="f", stages=[Stage(id="a", output_schema={"type": "string", "pattern": "("})])
