"""A graph of stages: each starts when those that it needs have completed. Ids are free."""

from headgate import Flow, Stage, run_flow_sync

flow = Flow(
    name="analysis",
    stages=[
        Stage(id="1", name="Gather data"),
        Stage(id="2", name="Clean data", needs=["1"]),
        Stage(id="3", name="Analyze", needs=["2"]),
        Stage(id="4", name="Visualize", needs=["2"], priority="high"),
        Stage(id="5", name="Report", needs=["3", "4"]),
    ],
)

if __name__ == "__main__":
    started: list[str] = []
    from headgate import Callbacks

    result = run_flow_sync(flow, input="Analyze the sales.", callbacks=Callbacks(on_start=started.append))
    print(result.status, started)
