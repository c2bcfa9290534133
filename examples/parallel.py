"""Stages that can neither write nor run anything may run at once."""

from headgate import Flow, Stage, run_flow_sync

flow = Flow(
    name="parallel",
    stages=[
        Stage(
            id="search",
            max_parallel=2,
            stages=[
                Stage(id="web", prompt="Search the web.", tools_allow=[]),
                Stage(id="papers", prompt="Search papers.", tools_allow=[]),
            ],
        ),
        Stage(id="answer", needs=["search"], prompt="Answer."),
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="What do bees eat?")
    print(result.status, sorted(each.id for each in result.stages.values() if each.status == "completed"))
