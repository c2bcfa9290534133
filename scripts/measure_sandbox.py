"""What the sandbox costs: a command in bubblewrap, as a ratio to the bare command, and trials per second.

    python scripts/measure_sandbox.py [TIMES]

Both are measured by turns in one run, so that a busy machine slows both. A trial is what the `repair` flow
does for each answer: it copies a small repository and runs its check there.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from headgate.checks import Verifier
from headgate.config import load_config
from headgate.core import VerifyStep
from headgate.engine.assembly import build_sandbox, find_sandbox
from headgate.log import Folder
from headgate.process import NoSandbox, Sandbox, run_command
from headgate.tree import IgnoredPaths, tree_copy

COMMANDS = {"true": "true", "python": "python3 -c pass", "git status": "git status --short"}


def make_repository(repo: Path) -> None:
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    for number in range(50):
        (repo / f"module_{number}.py").write_text(f"X = {number}\n" * 50)
    (repo / "check.py").write_text("import module_1\n\nassert module_1.X == 1\n")


async def main(times: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        repo = Path(place) / "repo"
        make_repository(repo)
        config = load_config(repo, environ={}, flags={}, user_file=repo / "none").config
        found = find_sandbox(config, os.environ)
        if isinstance(found, NoSandbox):
            sys.exit(f"There is no sandbox here: {found.reason}.")
        folder = Folder(repo)
        folder.create()
        sandbox = build_sandbox(folder, config, found, Path(place) / "scratch")
        for name, command in COMMANDS.items():
            await compare(
                name, times, lambda inside, command=command: one_command(command, repo, inside), sandbox
            )
        await compare("trial", times, lambda inside: one_trial(repo, folder, inside), sandbox)


async def compare(
    name: str, times: int, run: Callable[[Sandbox | None], Awaitable[object]], sandbox: Sandbox
) -> None:
    """Runs it by turns without and with the sandbox; prints the medians and their ratio."""
    took: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(times):
        for inside in (False, True):
            started = time.perf_counter()
            await run(sandbox if inside else None)
            took[inside].append(time.perf_counter() - started)
    bare, boxed = (statistics.median(took[inside]) * 1000 for inside in (False, True))
    print(f"{name:12} bare {bare:7.1f} ms   sandbox {boxed:7.1f} ms   ratio {boxed / bare:4.2f}   "
          f"{1000 / bare:6.1f} and {1000 / boxed:6.1f} per second")  # fmt: skip


async def one_command(command: str, repo: Path, sandbox: Sandbox | None) -> None:
    await run_command(command, cwd=repo, env=os.environ, timeout=60, max_output=1000, sandbox=sandbox)


async def one_trial(repo: Path, folder: Folder, sandbox: Sandbox | None) -> None:
    with tree_copy(repo, IgnoredPaths(repo)) as tree, tempfile.TemporaryDirectory() as runs:
        step = VerifyStep(name="check", command="python3 -B check.py")
        inside = sandbox and sandbox.in_copy(tree)
        found = await Verifier([step], tree, Path(runs), os.environ, sandbox=inside).run("trial")
        assert found.steps[0].passed, found


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
