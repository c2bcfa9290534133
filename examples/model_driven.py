"""The model works through the tasks in its own order, with start_task, complete_task and fail_task.

The runtime says which tasks are available, and judges each result.
"""

from pydantic import BaseModel

from headgate import Flow, Stage, run_flow_sync, tool


class Entities(BaseModel):
    names: list[str]


@tool(category="read")
def read_page(number: int) -> str:
    """Read a page."""
    return f"Page {number}: Ada Lovelace wrote to Charles Babbage."


flow = Flow(
    name="letters",
    stages=[
        Stage(
            id="letters",
            kind="drive",
            prompt="Work through the list.",
            stages=[
                Stage(id="extract", name="Extract entities", tools=[read_page], output_schema=Entities),
                Stage(id="date", name="Find the date", on_error="skip"),
                Stage(id="report", name="Write the report", needs=["extract", "date"], on_skip="run"),
            ],
        )
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="Who wrote to whom?")
    print(result["extract"].output.names, result["date"].status, result["report"].output)
