"""Tasks whose model does as it is told, while a person edits the same tree."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from headgate.config import load_config
from headgate.core import Constraints, Message, Options, Reply, Request, ToolCall, Usage
from headgate.engine import Engine
from headgate.log import Report

Call = tuple[str, dict[str, Any]]
LINES = "".join(f"line {number}\n" for number in range(1, 31))


def write(path: str, content: str) -> Call:
    return "write_file", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> Call:
    return "edit_file", {"path": path, "old": old, "new": new}


def shell(command: str) -> Call:
    return "shell", {"command": command}


def steps(*commands: str) -> str:
    """The configuration of verification steps."""
    named = [{"name": f"step {number}", "command": command} for number, command in enumerate(commands, 1)]
    return f"verification: {json.dumps({'steps': named})}\n"


WAITING_CHECK = "touch runs.log; until [ -e edited.log ]; do sleep 0.02; done"
"""A command that waits for the person in `person_at_check`; when it runs again, it waits for nobody."""


@contextmanager
def person_at_check(repo: Path, edits: Callable[[], None]) -> Iterator[None]:
    """Somebody edits files while `WAITING_CHECK` runs."""
    ended = Event()

    def act() -> None:
        while not (repo / "runs.log").exists() and not ended.is_set():
            time.sleep(0.02)
        edits()
        (repo / "edited.log").touch()

    person = Thread(target=act)
    person.start()
    try:
        yield
    finally:
        ended.set()
        person.join()


@dataclass
class Doer:
    """Takes one step with each reply: a call, or something that a person does meanwhile."""

    name = "doer"
    steps: list[Call | Callable[[], object]] = field(default_factory=list)
    told: str = ""
    """The messages of the last request."""

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.told = "\n".join(message.content for message in request.messages)
        while self.steps and callable(step := self.steps[0]):
            self.steps.pop(0)
            step()
        if not self.steps:
            return Reply(Message("assistant", "Done."), Usage(1, 1), "stop")
        name, arguments = self.steps.pop(0)
        call = ToolCall(f"c{len(self.steps)}", name, json.dumps(arguments))
        return Reply(Message("assistant", "", calls=(call,)), Usage(1, 1), "tool_calls")


@dataclass
class Bench:
    """A repository, and tasks in it."""

    repo: Path
    engine: Engine
    doer: Doer

    async def run(self, *steps: Call | Callable[[], object], **options: Any) -> Report:
        self.doer.steps = list(steps)
        return await self.engine.run(self.engine.submit("Do it.", Constraints(), Options(**options)))

    def put(self, path: str, text: str) -> None:
        (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (self.repo / path).write_text(text)

    def text(self, path: str) -> str:
        return (self.repo / path).read_text()

    def apply(self, diff: bytes) -> None:
        """A person applies a diff."""
        subprocess.run(["git", "apply"], cwd=self.repo, input=diff, check=True)

    def files(self) -> dict[str, tuple[bytes, bool]]:
        """The working tree: contents, and whether each file is executable. Empty folders end in a slash."""
        found: dict[str, tuple[bytes, bool]] = {}
        for folder, folders, names in os.walk(self.repo):
            folders[:] = [name for name in folders if name not in (".git", ".headgate")]
            for path in (Path(folder, name) for name in names):
                found[path.relative_to(self.repo).as_posix()] = path.read_bytes(), os.access(path, os.X_OK)
            if not folders and not names:
                found[f"{Path(folder).relative_to(self.repo).as_posix()}/"] = b"", False
        return found


def make_bench(path: Path, config: str = "", *, sha256: bool = False) -> Bench:
    repo = path / "repo"
    kind = ["--object-format=sha256"] if sha256 else []
    subprocess.run(["git", "init", "-q", *kind, str(repo)], check=True)
    (repo / "agent.yaml").write_text(f"task_flow_mode: flat\nscouts: off\n{config}")
    (repo / "a.txt").write_text(LINES)
    (repo / "gone.sh").write_text("#!/bin/sh\n")
    (repo / "gone.sh").chmod(0o755)
    (repo / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "-C", str(repo), "add", "-A"], check=True)
    who = ["-c", "user.name=p", "-c", "user.email=p@example.org"]
    subprocess.run(["git", "-C", str(repo), *who, "commit", "-qm", "start"], check=True)
    doer = Doer()
    loaded = load_config(repo, environ={}, flags={}, user_file=repo / "none.yaml")
    return Bench(repo, Engine.open(repo, loaded, models={None: doer}), doer)
