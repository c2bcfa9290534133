"""Checkpoints: a flow that was cut short goes on in another process."""

from pathlib import Path

from headgate import Checkpoint, Flow, Stage, run_flow_sync

flow = Flow(
    name="migration",
    stages=[
        Stage(id="plan", prompt="Plan the migration."),
        Stage(id="apply", needs=["plan"], prompt="Apply the plan."),
    ],
)
checkpoint = Checkpoint(path="checkpoints/session-{session_id}.jsonl", interval="on_stage")

if __name__ == "__main__":
    run_flow_sync(flow, input="Migrate the data.", checkpoint=checkpoint, session_id="123")
    # Later, or on another machine: go on where it stopped.
    restored = Flow.restore(Path("checkpoints/session-123.jsonl"), flow)
    print([event.body.stage for event in restored.saved.events if event.kind == "stage_ended"])
