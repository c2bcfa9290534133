"""Checkpoints: the log of a flow as checked lines, from which another process can go on.

The first line says which flow it is. Each further line is an event, with what was said in it. Every line ends
with a checksum. A file is replaced whole, and the one before it stays as a backup.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

import orjson

from headgate import core
from headgate.core import BODY, Event
from headgate.errors import ConfigError
from headgate.library.flow import CompiledFlow, Flow, LoadedFlow, import_reference

FORMAT = 1
_LOCAL = "local:"
_SUM_CHARS = 16


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a flow is saved, and when."""

    storage: Literal["memory", "file", "custom"] = "file"
    path: str = "checkpoints/{session_id}.jsonl"
    """With `file`: where. `{session_id}` is replaced by the id of the run."""
    auto_save: bool = True
    """Save without being asked. Otherwise only `FlowRun.save()` saves."""
    interval: Literal["on_stage", "on_turn"] | float = "on_stage"
    """When: after each stage, after each turn, or at most once in so many seconds."""
    on_save: Callable[[bytes], Awaitable[None] | None] | None = None
    """With `custom`: takes what is to be kept."""
    on_load: Callable[[], bytes] | None = None
    """With `custom`: returns what was kept."""

    def __post_init__(self) -> None:
        if self.storage == "custom" and self.on_save is None:
            raise ConfigError("A custom checkpoint needs `on_save`.")
        if not isinstance(self.interval, str) and self.interval <= 0:
            raise ConfigError("The interval of a checkpoint must be more than 0 seconds.")

    def file(self, session_id: str) -> Path:
        """The file of a run."""
        return Path(self.path.replace("{session_id}", session_id))


@dataclass(frozen=True, slots=True)
class SavedFlow:
    """What a checkpoint holds."""

    session_id: str
    input: str
    flow: core.Flow
    fingerprint: str
    repo: str = ""
    """The repository that the flow ran in; empty if it ran without one."""
    events: tuple[Event, ...] = ()
    contents: Mapping[int, str] = field(default_factory=dict)


def fingerprint(flow: core.Flow) -> str:
    """What two flows have in common if one can go on with the events of the other."""
    return sha256(flow.model_dump_json(exclude={"description"}).encode()).hexdigest()[:32]


def encode(saved: SavedFlow) -> bytes:
    """A checkpoint as text."""
    head = {
        "headgate_checkpoint": FORMAT,
        "session_id": saved.session_id,
        "input": saved.input,
        "repo": saved.repo,
        "fingerprint": saved.fingerprint,
        "flow": saved.flow.model_dump(mode="json", exclude_defaults=True),
    }
    lines = [head, *(_event_line(event, saved.contents.get(event.seq)) for event in saved.events)]
    return b"".join(map(_with_sum, lines))


def decode(data: bytes, name: str) -> SavedFlow:
    """What a checkpoint holds. ConfigError if it is damaged, or of a newer version."""
    lines = _checked_lines(data, name)
    head = next(lines, None)
    if head is None or "headgate_checkpoint" not in head:
        raise CheckpointDamaged(f"{name} is no checkpoint.")
    if head["headgate_checkpoint"] > FORMAT:
        raise ConfigError(f"{name} was written by a newer version of Headgate: install that version.")
    events: list[Event] = []
    contents: dict[int, str] = {}
    for line in lines:
        body = BODY.validate_python({**line["body"], "kind": line["kind"]})
        events.append(Event(line["seq"], line["task"], line["path"], line["turn"], line["at"], body))
        if "content" in line:
            contents[line["seq"]] = line["content"]
    flow = core.Flow.model_validate(head["flow"])
    return SavedFlow(
        head["session_id"], head["input"], flow, head["fingerprint"], head["repo"], tuple(events), contents
    )


class CheckpointDamaged(ConfigError):
    """A checkpoint of which a line is not what was written."""


def _event_line(event: Event, content: str | None) -> dict[str, Any]:
    line = event.as_json()
    return line if content is None else {**line, "content": content}


def _with_sum(line: dict[str, Any]) -> bytes:
    text = orjson.dumps(line)
    return text + b" " + sha256(text).hexdigest()[:_SUM_CHARS].encode() + b"\n"


def _checked_lines(data: bytes, name: str) -> Iterator[dict[str, Any]]:
    if not data.endswith(b"\n"):
        raise CheckpointDamaged(f"{name} is cut off.")
    for number, row in enumerate(data.split(b"\n")[:-1], 1):
        text, _, found = row.rpartition(b" ")
        if sha256(text).hexdigest()[:_SUM_CHARS].encode() != found:
            raise CheckpointDamaged(f"{name}, line {number}, is damaged.")
        yield orjson.loads(text)


# Files.


def backup_of(path: Path) -> Path:
    """Where the checkpoint before the latest one is."""
    return path.with_name(f"{path.name}.backup")


def write_checkpoint(path: Path, data: bytes) -> None:
    """Replaces a checkpoint. At any moment there is a whole one: the new one, the old one or the backup."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(backup_of(path))
    Path(file.name).replace(path)


def read_checkpoint(path: Path) -> tuple[SavedFlow, str]:
    """A checkpoint, or its backup if it is damaged or gone; and a sentence if it is the backup."""
    try:
        return decode(path.read_bytes(), str(path)), ""
    except (FileNotFoundError, CheckpointDamaged) as error:
        backup = backup_of(path)
        if not backup.exists():
            if isinstance(error, CheckpointDamaged):
                raise
            raise ConfigError(f"There is no checkpoint {path}.") from None
        said = str(error) if isinstance(error, CheckpointDamaged) else f"{path} is gone."
        return decode(backup.read_bytes(), str(backup)), f"{said} The run goes on from {backup}."


# The flow of a checkpoint.


def compiled_for(saved: SavedFlow, flow: Flow | LoadedFlow | None) -> CompiledFlow:
    """The flow that goes on. ConfigError if it is another one, or if it is needed and was not given."""
    if flow is not None:
        if fingerprint(flow.compiled.flow) != saved.fingerprint:
            raise ConfigError(f'The flow "{flow.name}" is not the one that the checkpoint was made with.')
        return flow.compiled
    stages = list(core.all_stages(saved.flow.stages))
    needed = [name for stage in stages for name in stage.references]
    local = [name for name in needed if name.startswith(_LOCAL)]
    if local or any(stage.tools.add for stage in stages):
        what = "tools" if not local else f"a function without an import path ({local[0]})"
        raise ConfigError(f"The checkpoint's flow has {what}: give the flow as `flow`.")
    return CompiledFlow(saved.flow, {}, {}, {name: import_reference(name) for name in needed})
