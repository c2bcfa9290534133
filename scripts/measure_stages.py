"""What a stage costs when a flow has many that share a conversation: CPU, memory and the size of the view.

    python scripts/measure_stages.py [--peers] [STAGES ...]

Each stage of the chain calls one tool, whose result has 2,000 characters, and says that it is done. The model
is in this process and answers at once, so what is measured is Headgate alone: the loop, the log in a file,
and compaction `on_complete`, `aggressive`.

With --peers, langgraph and pydantic-graph run a chain of as many nodes, installed into a temporary
environment. Each node is a trivial coroutine that adds the same three messages to the state; langgraph saves
a checkpoint after each with MemorySaver. They call no model, check nothing and keep no log on disk: compare
how their figures grow, not the figures.

Every figure is from a process of its own. CPU is the least of five runs, without tracemalloc; memory is from
a run with it: its peak above what was allocated when the chain began.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

LENGTHS = (50, 100, 200, 400)
RESULT = ("def handler(event, context):\n    return process(event)\n" * 40)[:2_000]
RUNS = 5
PEERS = ("langgraph", "pydantic-graph")
Chain = Callable[[], Awaitable[dict[str, Any]]]


def headgate_chain(stages: int, folder: Path) -> Chain:
    """A chain of stages, ready to run."""
    from headgate import Flow, Stage, start_flow, tool
    from headgate.core import Message, Reply, Request, ToolCall, Usage

    @tool(category="read")
    async def look(place: str) -> str:
        """Look somewhere."""
        return f"{place}\n{RESULT}"

    @dataclass
    class Worker:
        """A model that looks once in each stage, and then says that it is done."""

        name: str = "worker"
        calls: int = 0
        latest: Request | None = None

        async def reply(self, request: Request, on_delta: object = None) -> Reply:
            self.calls += 1
            self.latest = request
            if self.calls % 2:
                call = ToolCall(f"c{self.calls}", "look", f'{{"place": "room {self.calls}"}}')
            else:
                done = next(spec for spec in request.tools if spec.name == "stage_done")
                stage = done.parameters["properties"]["stage"]["enum"][0]
                call = ToolCall(f"c{self.calls}", "stage_done", f'{{"stage": "{stage}", "summary": "Done."}}')
            return Reply(Message("assistant", "", (call,)), Usage(prompt=10, completion=5))

    chain = [
        Stage(
            id=f"s{n}",
            prompt="Look.",
            needs=[f"s{n - 1}"] if n else [],
            options={"view": {"transcript": "parent"}},
        )
        for n in range(stages)
    ]
    flow = Flow(
        name="chain",
        stages=chain,
        tools=[look],
        compaction={"trigger": "on_complete", "strategy": "aggressive"},
    )
    model = Worker()

    async def run() -> dict[str, Any]:
        log = folder / f"{stages}.jsonl"
        result = await start_flow(flow, model=model, log=log).result()
        assert result.status == "completed", result.reason
        assert model.latest is not None
        view = sum(len(message.content) for message in model.latest.messages)
        return {"view": view, "log": log.stat().st_size}

    return run


def langgraph_chain(stages: int, folder: Path) -> Chain:
    """The same graph in langgraph."""
    import operator
    from typing import Annotated, TypedDict

    from langgraph.checkpoint.memory import MemorySaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        messages: Annotated[list[dict[str, str]], operator.add]

    def make(n: int) -> Callable[[State], Awaitable[dict[str, Any]]]:
        async def node(state: State) -> dict[str, Any]:
            return {"messages": said(n)}

        return node

    graph = StateGraph(State)
    for n in range(stages):
        graph.add_node(f"s{n}", make(n))
        graph.add_edge(f"s{n - 1}" if n else START, f"s{n}")
    graph.add_edge(f"s{stages - 1}", END)
    compiled = graph.compile(checkpointer=MemorySaver())

    async def run() -> dict[str, Any]:
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": stages + 10}
        ended = await compiled.ainvoke({"messages": []}, config)
        return {"view": size_of(ended["messages"])}

    return run


def pydantic_graph_chain(stages: int, folder: Path) -> Chain:
    """The same graph in pydantic-graph."""
    from pydantic_graph import GraphBuilder, StepContext

    @dataclass
    class State:
        messages: list[dict[str, str]] = field(default_factory=list)

    builder = GraphBuilder(state_type=State, output_type=int)

    def make(n: int) -> Any:
        async def node(context: StepContext[State, None, Any]) -> int:
            context.state.messages += said(n)
            return n

        return builder.step(node, node_id=f"s{n}")

    steps = [make(n) for n in range(stages)]
    edges = [builder.edge_from(builder.start_node).to(steps[0])]
    edges += [builder.edge_from(a).to(b) for a, b in pairwise(steps)]
    edges.append(builder.edge_from(steps[-1]).to(builder.end_node))
    builder.add(*edges)
    graph = builder.build()

    async def run() -> dict[str, Any]:
        state = State()
        await graph.run(state=state)
        return {"view": size_of(state.messages)}

    return run


def said(n: int) -> list[dict[str, str]]:
    """What one stage adds to a conversation."""
    return [
        {"role": "assistant", "content": f'look {{"place": "room {n}"}}'},
        {"role": "tool", "content": f"room {n}\n{RESULT}"},
        {"role": "assistant", "content": "Done."},
    ]


def size_of(messages: list[dict[str, str]]) -> int:
    return sum(len(message["content"]) for message in messages)


CHAINS = {
    "headgate": headgate_chain,
    "langgraph": langgraph_chain,
    "pydantic-graph": pydantic_graph_chain,
}


def work(name: str, stages: int, memory: bool) -> dict[str, Any]:
    """Runs one chain, and says what it took."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(CHAINS[name](3, Path(folder))())  # what is imported and made once
        chain = CHAINS[name](stages, Path(folder))
        if memory:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            told = asyncio.run(chain())
            return {**told, "peak": tracemalloc.get_traced_memory()[1] - before}
        start = time.process_time()
        told = asyncio.run(chain())
        return {**told, "cpu": time.process_time() - start}


def measure(python: str, name: str, stages: int) -> dict[str, Any]:
    """The figures of one chain, each from a process of its own."""
    figures: dict[str, Any] = {}
    for kind in (*["cpu"] * RUNS, "memory"):
        words = [python, __file__, "--work", name, str(stages), kind]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} with {stages} stages failed:\n{done.stderr}")
        told = json.loads(done.stdout.splitlines()[-1])
        figures = {**figures, **told, "cpu": min(told.get("cpu", inf), figures.get("cpu", inf))}
    return figures


def print_table(python: str, name: str, lengths: list[int]) -> None:
    first: dict[str, Any] = {}
    for stages in lengths:
        told = measure(python, name, stages)
        first = first or {**told, "stages": stages}
        per_stage, at_first = told["cpu"] / stages, first["cpu"] / first["stages"]
        log = f"{told['log'] / 1024 / stages:10.2f}" if "log" in told else f"{'-':>10}"
        print(
            f"{name:<15}{stages:>7}{1000 * per_stage:>14.2f}{per_stage / at_first:>8.2f}"
            f"{told['peak'] / 1024:>12,.0f}{told['peak'] / 1024 / stages:>12.2f}{told['view']:>11,}{log}",
            flush=True,
        )


def main(words: list[str]) -> None:
    lengths = [int(word) for word in words if word.isdigit()] or list(LENGTHS)
    print(
        f"{'':<15}{'stages':>7}{'CPU ms/stage':>14}{'ratio':>8}{'peak KB':>12}{'KB/stage':>12}"
        f"{'view chars':>11}{'log KB/st.':>11}"
    )
    print_table(sys.executable, "headgate", lengths)
    if "--peers" not in words:
        for peer in PEERS:
            print(f"{peer:<15} skipped: --peers installs it into a temporary environment, and measures it")
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        for peer in PEERS:
            pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", peer]
            if subprocess.run(pip, check=False).returncode:
                print(f"{peer:<15} skipped: it could not be installed")
                continue
            print_table(python, peer, lengths)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "memory")))
    else:
        main(sys.argv[1:])
