"""Callbacks are told what happens. One that fails is logged, and the flow goes on."""

import asyncio

from headgate import Callbacks, Flow, Stage, StageResult, run_flow

flow = Flow(
    name="two", stages=[Stage(id="read", prompt="Read."), Stage(id="write", needs=["read"], prompt="Write.")]
)


async def on_complete(stage: str, result: StageResult) -> None:
    print(f"Done: {stage}: {result.note.summary}")


callbacks = Callbacks(
    on_start=lambda stage: print(f"Starting: {stage}"),
    on_complete=on_complete,
    on_error=lambda stage, why: print(f"Failed: {stage}: {why}"),
    on_skip=lambda stage, why: print(f"Skipped: {stage}: {why}"),
    on_progress=lambda ended, total, stage: print(f"{ended} of {total}"),
)

if __name__ == "__main__":
    asyncio.run(run_flow(flow, input="Read and write.", callbacks=callbacks))
