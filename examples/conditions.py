"""Stages that run only if a condition holds: a function, or an expression over results."""

from typing import Literal

from pydantic import BaseModel

from headgate import Flow, Stage, run_flow_sync


class Sentiment(BaseModel):
    sentiment: Literal["positive", "negative"]


flow = Flow(
    name="feedback",
    stages=[
        Stage(id="analyze", prompt="Analyze the sentiment.", output_schema=Sentiment),
        Stage(
            id="positive_path",
            needs=["analyze"],
            prompt="Thank the customer.",
            when=lambda state: state.results["analyze"]["sentiment"] == "positive",
        ),
        Stage(
            id="negative_path",
            needs=["analyze"],
            prompt="Apologize to the customer.",
            when='results.analyze.sentiment == "negative"',
        ),
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="I love it.")
    for stage in result.stages.values():
        print(stage.id, stage.status, stage.error)
