"""What a flow goes on from: a checkpoint or a log, and the functions that its flow names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError

from headgate import core
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.library.checkpoints import backup_of
from headgate.library.flow import CompiledFlow, Flow, LoadedFlow
from headgate.library.functions import as_tool, function_of
from headgate.library.lines import CheckpointDamaged, Head, SavedFlow, decode, encode_head, fingerprint
from headgate.library.naming import import_reference
from headgate.tools import Tool

_LOCAL = "local:"


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint that was found whole."""

    head: Head
    name: str
    data: bytes
    length: int
    """How many of its bytes are whole."""
    path: Path | None = None
    note: str = ""
    """What was wrong with it."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data)

    @property
    def first(self) -> int:
        """Where its first event begins."""
        return self.data.index(b"\n") + 1

    def load(self) -> SavedFlow:
        """What it holds."""
        return decode(self.data[: self.length], self.name)

    def lines(self) -> bytes:
        """Its events, as lines."""
        return self.data[self.first : self.length]


def from_bytes(data: bytes) -> Source:
    """A checkpoint that somebody has kept. ConfigError if it is not whole."""
    return _source(data, "The checkpoint")


def from_file(path: Path) -> Source:
    """A checkpoint, or its backup if it is damaged or gone; `note` says so.

    An end that was cut off while it was written is left out, and `note` says that as well.
    """
    try:
        return _source(path.read_bytes(), str(path), path)
    except (FileNotFoundError, CheckpointDamaged) as error:
        backup = backup_of(path)
        gone = isinstance(error, FileNotFoundError)
        if not backup.exists():
            if gone:
                raise ConfigError(f"There is no checkpoint {path}.") from None
            raise
        said = f"{path} is gone." if gone else str(error)
        note = f"{said} The run continues from {backup}."
        return _source(backup.read_bytes(), str(backup), backup, note)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None


def _source(data: bytes, name: str, path: Path | None = None, note: str = "") -> Source:
    saved = decode(data, name, appended=path is not None)
    if cut := len(data) - saved.length:
        said = f"The last {cut} bytes of {name} were not written whole and are left out."
        note = f"{note} {said}".strip()
    return Source(saved.head, name, data, saved.length, path, note)


# The flow of a checkpoint, and its functions.


def describe_flow(compiled: CompiledFlow, session_id: str, text: str, **where: Any) -> Head:
    """The head for the checkpoints and the log of a run."""
    named = {"": compiled.tools, **compiled.stage_tools}
    tools = {
        stage: {name: _import_path(tool) for name, tool in own.items()} for stage, own in named.items() if own
    }
    try:
        known = fingerprint(compiled.flow)
    except PydanticSerializationError as error:
        raise ConfigError(
            f'Flow "{compiled.flow.name}": variables and metadata must be plain data: {error}.'
        ) from None
    return Head(session_id, text, compiled.flow, known, tools, **where)


def _import_path(tool: Tool) -> str:
    """Where others can import a tool from; empty if they cannot."""
    function = function_of(tool)
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or "<" in name:
        return ""
    reference = f"{module}:{name}"
    try:
        found = import_reference(reference)
    except ConfigError:
        return ""
    return reference if found is function and as_tool(found, reference).name == tool.name else ""


def compiled_for(head: Head, flow: Flow | LoadedFlow | None) -> CompiledFlow:
    """The flow that goes on. ConfigError if it is another one, or if it is needed and was not given."""
    if flow is not None:
        if fingerprint(flow.compiled.flow) != head.fingerprint:
            raise ConfigError(
                f'The flow "{flow.name}" is not the one that the checkpoint was made with'
                f"{_difference(flow.compiled.flow, head.flow)}."
            )
        return flow.compiled
    needed = [name for stage in core.all_stages(head.flow.stages) for name in stage.references]
    local = [name for name in needed if name.startswith(_LOCAL)]
    local += [name for own in head.tools.values() for name, path in own.items() if not path]
    if local:
        raise ConfigError(
            f"The checkpoint's flow has a function that cannot be imported by name ({local[0]}):"
            " give the flow as `flow`."
        )
    stage_tools = {stage: _import_tools(own) for stage, own in head.tools.items()}
    code = {name: import_reference(name) for name in needed}
    return CompiledFlow(head.flow, stage_tools.pop("", {}), stage_tools, code)


def _difference(given: core.Flow, saved: core.Flow) -> str:
    """Where two flows first differ, as the end of a sentence."""
    if given.name != saved.name:
        return f', which is called "{saved.name}"'
    old = {stage.id: stage for stage in core.all_stages(saved.stages)}
    for stage in core.all_stages(given.stages):
        if stage.id not in old:
            return f': that one has no stage "{stage.id}"'
        here, there = stage.model_dump(exclude={"stages"}), old.pop(stage.id).model_dump(exclude={"stages"})
        names = [name for name in here if here[name] != there[name]]
        if not names:
            continue
        hint = ""
        if any(_LOCAL in f"{here[name]}{there[name]}" for name in names):
            hint = (
                "; a function or type that is defined in a program is another one if it is imported from it"
            )
        return f': the stage "{stage.id}" differs in {", ".join(names)}{hint}'
    return f': that one has the stage "{next(iter(old))}", too' if old else ""


def _import_tools(own: Mapping[str, str]) -> dict[str, Tool]:
    found = {name: as_tool(import_reference(path), path) for name, path in own.items()}
    for name, tool in found.items():
        if tool.name != name:
            raise ConfigError(f"{own[name]} is not the tool {name} any more: give the flow as `flow`.")
    return found


def log_lines(head: Head, source: Source | None) -> tuple[bytes, int]:
    """What a new log begins with, and how much of that is its head."""
    first = encode_head(head)
    return first + (source.lines() if source else b""), len(first)
