"""An output with a schema, and a function that judges it. What it refuses goes back to the model."""

from typing import Literal

from pydantic import BaseModel

from headgate import Flow, Stage, run_flow_sync


class Entity(BaseModel):
    name: str
    type: Literal["person", "org", "location"]


class Entities(BaseModel):
    entities: list[Entity]


flow = Flow(
    name="entities",
    stages=[
        Stage(
            id="extract",
            prompt="Extract the entities of the text.",
            output_schema=Entities,
            accept=lambda out: len(out.entities) > 0,
        )
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="Ada Lovelace worked in London.")
    for entity in result["extract"].output.entities:
        print(entity.type, entity.name)
