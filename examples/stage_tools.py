"""Tools of a stage: `extend` adds them to the flow's tools, `exclusive` leaves nothing else."""

from headgate import Flow, Stage, run_flow_sync, tool

written: dict[str, str] = {}


@tool(category="read")
def web_search(query: str) -> list[str]:
    """Search the web."""
    return [f"https://example.com/{query}"]


@tool(category="read")
def read_url(url: str) -> str:
    """Read the content of a URL."""
    return f"The page {url} says: use a queue."


@tool(category="write")
def write_file(path: str, content: str) -> str:
    """Write a file."""
    written[path] = content
    return f"Wrote {len(content)} characters."


@tool
def run_tests() -> dict[str, int]:
    """Run the test suite."""
    return {"passed": 3, "failed": 0}


flow = Flow(
    name="research-and-code",
    stages=[
        Stage(id="research", prompt="Research the topic.", tools=[web_search, read_url], tool_mode="extend"),
        Stage(
            id="code",
            needs=["research"],
            prompt="Write the implementation.",
            tools=[write_file, run_tests],
            tool_mode="exclusive",
        ),
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="Implement a job queue.")
    print(result.status, sorted(written))
