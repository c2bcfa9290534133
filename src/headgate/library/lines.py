"""The log of a flow as checked lines: what log files and checkpoints are made of.

The first line, the head, says which flow it is. Each further line is an event, with what was said in it.
Every line ends with a checksum. Events that were committed together count together or not at all: all of
their lines but the last say that there are more. So a file that is only appended to can be cut anywhere, and
what is left of it is still a log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from headgate import core
from headgate.core import Event, read_body
from headgate.errors import ConfigError
from headgate.first_use import dataclass

FORMAT = 1
_SUM_CHARS = 16


class CheckpointDamaged(ConfigError):
    """A checkpoint of which a line is not what was written."""


@dataclass(frozen=True, slots=True)
class Head:
    """Which flow it is, and what it needs to go on."""

    session_id: str
    input: str
    flow: core.Flow
    fingerprint: str
    tools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The import path of each tool, empty if it has none: by the stage that has it, then by name. The flow's
    own tools are under an empty id."""
    workspace: str = ""
    """The folder that its file tools work in."""
    repo: str = ""
    """The repository that the flow runs in, and its task there; empty if it runs without one."""
    task: str = ""
    is_log: bool = False
    """The file is the log itself, to which a run that goes on appends."""

    def of_log(self) -> "Head":
        """The same for the log itself."""
        return replace(self, is_log=True)


@dataclass(frozen=True, slots=True)
class SavedFlow:
    """What a checkpoint, or a log, holds."""

    head: Head
    events: tuple[Event, ...] = ()
    contents: Mapping[int, str] = field(default_factory=dict)
    """What was kept with events: prompts, replies and results."""
    length: int = 0
    """How many bytes of it are whole; what follows was cut off while it was written."""

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0


def fingerprint(flow: core.Flow) -> str:
    """What two flows have in common if one can go on with the events of the other."""
    return sha256(flow.model_dump_json(exclude={"description"}).encode()).hexdigest()[:32]


def encode_head(head: Head) -> bytes:
    """The first line."""
    names = ("session_id", "input", "fingerprint", "workspace", "repo", "task", "is_log")
    return _with_sum(
        orjson.dumps(
            {
                "headgate_checkpoint": FORMAT,
                **{name: getattr(head, name) for name in names},
                "tools": {stage: dict(tools) for stage, tools in head.tools.items()},
                "flow": head.flow.model_dump(mode="json", exclude_defaults=True),
            }
        )
    )


def encode_commit(committed: Sequence[tuple[Event, str | None]]) -> list[bytes]:
    """A line for each of the events that are committed together, each with what is kept with it."""
    last = len(committed) - 1
    return [_encode(event, content, more=at < last) for at, (event, content) in enumerate(committed)]


def _encode(event: Event, content: str | None, *, more: bool) -> bytes:
    fields: dict[str, Any] = {
        "seq": event.seq,
        "task": event.task,
        "path": event.path,
        "turn": event.turn,
        "at": event.at,
        "kind": event.kind,
        "body": orjson.Fragment(event.body.model_dump_json(exclude_defaults=True)),
    }
    if content is not None:
        fields["content"] = content
    if more:
        fields["more"] = True
    return _with_sum(orjson.dumps(fields))


def decode_lines(data: bytes) -> Iterator[Event]:
    """The events in lines that this process has written itself."""
    for row in data.split(b"\n")[:-1]:
        yield _event(orjson.loads(row.rpartition(b" ")[0]))


def decode(data: bytes, name: str, *, appended: bool = False) -> SavedFlow:
    """What a checkpoint holds. ConfigError if it is damaged, or of a newer version.

    `appended`: its end may be cut off. What was not written whole there is left out.
    """
    rows = list(_rows(data))
    lines: list[dict[str, Any]] = []
    length = 0
    for number, (row, stop) in enumerate(rows, 1):
        line = _checked(row)
        if line is None:
            if number < len(rows) or number == 1:
                said = f"{name}, line {number}, is damaged." if number > 1 else f"{name} is not a checkpoint."
                raise CheckpointDamaged(said)
            break
        lines.append(line)
        if not line.get("more"):
            length, whole = stop, number
    if not lines or "headgate_checkpoint" not in lines[0]:
        raise CheckpointDamaged(f"{name} is not a checkpoint.")
    if length < len(data) and not appended:
        raise CheckpointDamaged(f"{name} is cut off.")
    head = _head(lines[0], name)
    try:
        events = tuple(map(_event, lines[1:whole]))
    except (ValidationError, KeyError, TypeError):
        raise ConfigError(f"{name} has events that this version of Headgate does not know.") from None
    contents = {line["seq"]: line["content"] for line in lines[1:whole] if "content" in line}
    return SavedFlow(head, events, contents, length)


def _head(line: dict[str, Any], name: str) -> Head:
    version = line["headgate_checkpoint"]
    if not isinstance(version, int) or version > FORMAT:
        raise ConfigError(f"{name} was written by a newer version of Headgate: install that version.")
    try:
        return _HEAD.validate_python({key: value for key, value in line.items() if key in Head.__slots__})
    except (ValidationError, TypeError, KeyError):
        raise ConfigError(f"{name} has a flow that this version of Headgate does not know.") from None


_HEAD = TypeAdapter(Head)


def _event(line: dict[str, Any]) -> Event:
    body = read_body(line["kind"], line["body"])
    return Event(line["seq"], line["task"], line["path"], line["turn"], line["at"], body)


def _with_sum(text: bytes) -> bytes:
    return text + b" " + sha256(text).hexdigest()[:_SUM_CHARS].encode() + b"\n"


def _rows(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Each line with its end, and where the next one starts. The last one may have none."""
    start = 0
    while start < len(data):
        stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop], stop
        start = stop


def _checked(row: bytes) -> dict[str, Any] | None:
    """What a line says; None if it is not what was written."""
    text, _, found = row.rpartition(b" ")
    if found != sha256(text).hexdigest()[:_SUM_CHARS].encode() + b"\n":
        return None
    try:
        line = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None
