"""Headgate as a library: each session is a task in a git repository of its own.

So there are a queue, a log with synchronous=FULL, snapshots of the tree, gates, rules and a report.
Variants: empty, or `no_repo`: a flow of a program, with its log in memory and a tool of its own.
"""

import os
import subprocess
import time
from pathlib import Path

from session import RESULT, SYSTEM, TASK, Place, measure, read_file

from headgate import Flow, Stage, run_flow, tool

FLOW = """name: read
stages:
  - id: work
    prompt: Read every module.
    tools: {allow: [read_file]}
    allow_missing_done: true
    budget: {turns: 2000}
"""
LONG_AGO = 1_700_000_000
SETTLED_SECONDS = 0.3
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")


def prepare(place: Place) -> None:
    """As many repositories as there are sessions."""
    if place.variant == "no_repo":
        return
    pattern = place.folder / "pattern"
    (pattern / "src").mkdir(parents=True)
    for number in range(place.most_turns + 1):
        (pattern / "src" / f"module_{number}.py").write_text(RESULT)
    (pattern / "read.yaml").write_text(FLOW)
    for file in pattern.rglob("*"):
        os.utime(file, (LONG_AGO, LONG_AGO))  # as in a repository that was not written just now
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Add modules")):
        subprocess.run([*GIT, *command], cwd=pattern, check=True)
    place.kept["repositories"] = repositories = []
    for number in range(place.sessions):
        repositories.append(place.folder / f"repo{number}")
        subprocess.run(["cp", "-a", pattern, repositories[-1]], check=True)
    newest = max(file.lstat().st_ctime for file in repositories[-1].rglob("*"))
    while time.time() - newest < SETTLED_SECONDS:  # what has just been written is looked at more often
        time.sleep(0.05)


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    if place.variant == "no_repo":
        flow = Flow(
            name="read",
            system=SYSTEM,
            stages=[
                Stage(
                    id="work",
                    tools=[tool(category="read")(read_file)],
                    options={"allow_missing_done": True, "budget": {"turns": 2000}},
                )
            ],
        )
        result = await run_flow(flow, model="openai/fake", base_url=url, api_key="x", input=TASK)
    else:
        repo: Path = place.kept["repositories"].pop(0)
        result = await run_flow(
            Flow.load(repo / "read.yaml"),
            model="openai/fake",
            base_url=url,
            api_key="x",
            input=TASK,
            repo=repo,
        )
    return f"{result.status} {result.reason} {result['work'].note.summary}"


os.environ["HEADGATE_API_KEY"] = "x"
measure(session, log="repo*/.headgate/headgate.db*", prepare=prepare)
