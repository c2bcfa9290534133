"""Stages that share a conversation. Each one that ends is replaced by a summary of it."""

from headgate import Callbacks, Flow, Stage, run_flow_sync

SHARED = {"view": {"transcript": "parent"}}
flow = Flow(
    name="shared",
    compaction={
        "trigger": "on_complete",
        "strategy": "moderate",
        "preserve": ["outputs", "decisions", "errors"],
    },
    stages=[
        Stage(id="gather", prompt="Gather the data.", options=SHARED),
        Stage(id="write", needs=["gather"], prompt="Write the report.", options=SHARED),
    ],
)

if __name__ == "__main__":
    compacted: list[str] = []
    calls = Callbacks(on_compact=lambda stage, before, after: compacted.append(stage))
    result = run_flow_sync(flow, input="A report about bees.", callbacks=calls)
    print(result.status, compacted)
