"""What a stage costs when a flow has many: CPU per stage of a linear flow of 50, 100, 200 and 400 stages.

    python scripts/bench_stages.py [STAGES ...]

The model is in this process and closes each stage at once, so what is measured is Headgate alone: the loop,
the log and the store. Flat means: a stage of the longest flow costs what one of the shortest costs.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from headgate.config import load_config
from headgate.core import Constraints, Message, Reply, Request, ToolCall, Usage
from headgate.engine import Engine

LENGTHS = (50, 100, 200, 400)


@dataclass
class Closer:
    """A model that says of every stage that it is done."""

    name: str = "closer"
    calls: int = 0

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.calls += 1
        done = next(tool for tool in request.tools if tool.name == "stage_done")
        stage = done.parameters["properties"]["stage"]["enum"][0]
        call = ToolCall(f"c{self.calls}", "stage_done", f'{{"stage": "{stage}", "summary": "Done."}}')
        return Reply(Message("assistant", "", (call,)), Usage(prompt=10, completion=5))


async def run(repo: Path, stages: int) -> float:
    """CPU seconds of a task with this many stages."""
    flow = [
        {"id": f"s{n}", "prompt": "Do nothing.", **({"needs": [f"s{n - 1}"]} if n else {})}
        for n in range(stages)
    ]
    (repo / "agent.yaml").write_text(yaml.safe_dump({"flow": flow}))
    loaded = load_config(
        repo, environ={"HEADGATE_MODEL": "script:none"}, flags={}, user_file=repo / "none.yaml"
    )
    engine = Engine.open(repo, loaded, models={None: Closer()})
    try:
        task = engine.submit("Do nothing.", Constraints())
        before = time.process_time()
        report = await engine.run(task)
        spent = time.process_time() - before
    finally:
        engine.store.close()
    assert report.requests == stages, report.summary
    return spent


def main(lengths: list[int]) -> None:
    print("stages   CPU s   ms per stage")
    for length in lengths:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "init", "-q", folder], check=True)
            spent = asyncio.run(run(Path(folder), length))
            print(f"{length:6} {spent:7.2f} {1000 * spent / length:14.2f}")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or list(LENGTHS))
