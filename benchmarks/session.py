"""What every peer is measured with: the same work, counted in the same way. Standard library only.

A peer is a file that calls `measure(session)`. `session(url, turns, place)` does one whole task, plain or as
a coroutine, and returns the last text. What it starts once for all sessions can stay in `place.kept`.
"""

import argparse
import asyncio
import inspect
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from counts import Counts

from server import DONE

SYSTEM = (
    "You are a coding agent. Use the tools to finish the task. When it is finished, answer in plain text."
)
TASK = "Read every module and summarise the project."
RESULT = ("def handler(event, context):\n    return process(event)  # line of source\n" * 20)[:1024]
"""What each call returns."""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        },
    }
]


def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: path of the file
    """
    return RESULT


class Place:
    """Where a peer works, and what it keeps from one session to the next."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.variant: str = arguments.variant
        self.most_turns: int = max(arguments.turns)
        self.sessions: int = 2 + len(arguments.turns) * arguments.sessions
        """As many as will be started, and some more."""
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
        self.kept: dict[str, Any] = {}


def _processor_seconds() -> tuple[float, float]:
    """Of this process, and of those that it started and that have ended."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


def _size(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()) if pattern else 0


def _read(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def measure(
    session: Callable[..., Any], *, script: str = "read_file", log: str = "", prepare: Any = None
) -> None:
    """Runs the sessions that the arguments ask for, and prints one line of JSON for each number of turns.

    `script` says what the server asks for, `log` is a pattern of the files that a session leaves.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--turns", type=lambda text: [int(one) for one in text.split(",")], default=[50])
    parser.add_argument("--sessions", type=int, default=1, help="at once")
    parser.add_argument("--profile", default="")
    parser.add_argument("--count", action="store_true", help="what is done, which takes longer: see counts")
    asked = parser.parse_args()
    place, counts = Place(asked), Counts() if asked.count else None
    if prepare:
        prepare(place)
    name = f"{Path(sys.argv[0]).stem}-{asked.variant}-{os.getpid()}"

    def url(key: str, turns: int) -> str:
        return f"{asked.url}/{key}/{turns}/{script}/v1"

    async def run(key: str, turns: int, count: int) -> list[Any]:
        if inspect.iscoroutinefunction(session):
            return list(await asyncio.gather(*(session(url(key, turns), turns, place) for _ in range(count))))
        if count == 1:
            return [session(url(key, turns), turns, place)]
        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(lambda _: session(url(key, turns), turns, place), range(count)))

    async def run_all() -> None:
        _require_done(await run(f"{name}-warm", 2, 1))
        for turns in asked.turns:
            key, before = f"{name}-{turns}", _size(place.folder, log)
            began, processor = time.perf_counter(), _processor_seconds()
            with _profiled(asked.profile), counts or nullcontext():
                _require_done(await run(key, turns, asked.sessions))
            seconds, after = time.perf_counter() - began, _processor_seconds()
            own, others = after[0] - processor[0], after[1] - processor[1]
            seen = _read(f"{asked.url}/stats/{key}")
            result = {
                "turns": turns,
                "sessions": asked.sessions,
                "requests": seen["requests"],
                "first_bytes": seen["first_bytes"],
                "bytes_in": seen["bytes_in"],
                "seconds": seconds,
                "processor": own + others,
                "processor_others": others,
                "ms_a_turn": 1e3 * (own + others) / turns / asked.sessions,
                "log_bytes": _size(place.folder, log) - before,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
            if counts:
                result["counts"] = dict(sorted(counts.found.items()))
            print("RESULT " + json.dumps(result), flush=True)

    asyncio.run(run_all())
    shutil.rmtree(place.folder, ignore_errors=True)
    os._exit(0)  # what a peer does at its end, such as sending telemetry, is not waited for


class _profiled:
    """Writes a profile of what is done inside, if a file is named."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __enter__(self) -> None:
        if self._file:
            import cProfile

            self._profile = cProfile.Profile()
            self._profile.enable()

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._profile.disable()
            self._profile.dump_stats(self._file)


def _require_done(answers: list[Any]) -> None:
    """Ends if a session did not come to its end: what it cost would mean nothing."""
    wrong = next((answer for answer in answers if DONE not in str(answer)), None)
    if wrong is not None:
        raise SystemExit(f"A session ended with {str(wrong)[:300]!r}.")
