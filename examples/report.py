"""A report in two stages: the first returns sources of a given type, the second writes from them."""

from pydantic import BaseModel

from headgate import Flow, Stage, run_flow_sync, tool


class Sources(BaseModel):
    items: list[str]


@tool(category="read")
async def search_papers(query: str) -> str:
    """Search for papers.

    Args:
        query: What the papers are about.
    """
    return f"1. {query}: a survey\n2. {query} in practice\n3. Against {query}"


flow = Flow(
    name="report",
    stages=[
        Stage(
            id="gather",
            prompt="Gather sources with search_papers. Return their titles.",
            tools=[search_papers],
            output_schema=Sources,
            accept=lambda out: len(out.items) > 2 or "Return at least three sources.",
        ),
        Stage(id="write", needs=["gather"], prompt="Write a report of three sentences as your summary."),
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="A short report about bees.")
    print(result.status)
    print(result["gather"].output.items)
    print(result["write"].note.summary)
