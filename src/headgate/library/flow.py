"""Flows that a Python program builds: stages with functions, types and tools of its own.

What runs is the same tree of stages as that of a flow file. Functions and types are named in it, by import
path where they have one, and handed to the run beside it.
"""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from headgate import core
from headgate.config import check_flow, explain, load_flow
from headgate.core import Priority
from headgate.engine import FLOW_NAMES, SPECS
from headgate.errors import ConfigError
from headgate.library.functions import tools_by_name
from headgate.library.naming import InProgram, check_function, import_reference, schema_of
from headgate.run import find_schema_fault
from headgate.tools import Tool

if TYPE_CHECKING:
    from headgate.library.run import RestoredFlow

SystemText = str | Mapping[str, str] | Sequence[str | Mapping[str, str]]
"""Instructions: a text, a part `{"name": ..., "value": ...}`, or several of them."""
Condition = Callable[[Any], bool | Awaitable[bool]]
Accept = Callable[[Any], bool | str | Awaitable[bool | str | None] | None]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A prompt with tools, variables, instructions and a model. A stage with `stages` is a group."""

    id: str
    prompt: str = ""
    name: str = ""
    """The name that people see; if empty, the id in capitals."""
    needs: Sequence[str] = ()
    """Stages that must complete before this one starts."""
    when: str | Condition | None = None
    """Run the stage only if this holds: a function that gets `results`, `variables` and `statuses`, or an
    expression such as `results.analyze.sentiment == "positive"` or `analyze.passed`."""
    on_skip: Literal["skip", "run"] | None = None
    """What happens to this stage if one that it needs was skipped."""
    stages: Sequence["Stage"] = ()
    join: Literal["all", "any"] = "all"
    max_parallel: int = 1
    """How many stages of the group may run at once, of those that can neither write nor run anything."""
    priority: Priority = "normal"
    required: bool = True
    """The flow fails if this stage fails; otherwise the flow continues."""
    tools: Sequence[Callable[..., Any] | Tool] = ()
    """Tools that only this stage has."""
    tool_mode: Literal["extend", "exclusive"] = "extend"
    """`extend`: the stage also has the flow's tools. `exclusive`: it has only its own."""
    tools_allow: Sequence[str] | None = None
    """Of the flow's tools, only these: names or categories, such as `read`."""
    tools_block: Sequence[str] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    system: SystemText = ()
    model: str | None = None
    agent: Mapping[str, Any] | core.Agent | None = None
    """Another agent carries the stage out: `model`, `options`, `context_transfer`, `inherit_tools`,
    `inherit_variables`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Any = None
    """What the stage must return: a pydantic model, another type that pydantic knows, or a JSON Schema."""
    accept: Accept | None = None
    """Judges the output. False or a text refuses it; the model is told the text."""
    on_error: Literal["retry", "skip", "fail"] | None = None
    max_retries: int | None = None
    on_max_retries: Literal["skip", "fail"] | None = None
    retry_backoff: Literal["none", "linear", "exponential"] | None = None
    kind: str = "talk"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of a stage, as in a flow file: `budget`, `view`, `checks`, `allow_missing_done`, ..."""


_OWN_NAMES = frozenset({"name", "stages", "tools", "tool_mode", "output_schema", "accept", "options"})
_SAME_NAMES = tuple(one.name for one in fields(Stage) if one.name not in _OWN_NAMES)
"""What a stage of a flow file has as well."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Stages, and what they share. Mistakes raise ConfigError when the flow is built."""

    name: str
    stages: Sequence[Stage]
    tools: Sequence[Callable[..., Any] | Tool] = ()
    """Tools of every stage."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    system: SystemText = ()
    description: str = ""
    compaction: Mapping[str, Any] | core.Compaction | None = None
    """Replace the messages of ended stages by summaries, in conversations that stages share."""
    max_parallel: int = 1
    on_error: Literal["retry", "skip", "fail"] | None = None
    """For every stage that does not say it itself, like the three that follow."""
    max_retries: int | None = None
    on_max_retries: Literal["skip", "fail"] | None = None
    retry_backoff: Literal["none", "linear", "exponential"] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of a flow, as in a flow file."""

    def __post_init__(self) -> None:
        _ = self.compiled

    @staticmethod
    def load(path: "str | Path") -> "LoadedFlow":
        """A flow from a YAML file. Functions, types and tools are written as import paths.

        They are imported, so load no file that you would not run as a program.
        """
        return load_flow_file(path)

    @staticmethod
    def restore(path: "str | Path", flow: "Flow | LoadedFlow | None" = None) -> "RestoredFlow":
        """A flow that goes on where a checkpoint was made; see `restore_flow`."""
        from headgate.library.run import restore_flow  # which runs flows, and so needs this module

        return restore_flow(path, flow)

    @cached_property
    def compiled(self) -> "CompiledFlow":
        """The flow as data, with the functions that it names."""
        return _Compiler(self).compile()


@dataclass(frozen=True)
class LoadedFlow:
    """A flow from a file."""

    name: str
    compiled: "CompiledFlow"


def load_flow_file(path: "str | Path") -> LoadedFlow:
    """See `Flow.load`."""
    file = Path(path).resolve()
    flow = load_flow(str(file), file.parent, FLOW_NAMES._replace(tools=None))
    code: dict[str, Any] = {}
    stage_tools: dict[str, dict[str, Tool]] = {}
    for stage in core.all_stages(flow.stages):
        where = f'{file.name}, stage "{stage.id}"'
        code |= {name: import_reference(name, where) for name in stage.references}
        if stage.accept:
            check_function(code[stage.accept], f"{where}: accept")
        if stage.output_type:
            schema_of(code[stage.output_type], f"{where}: output_type {stage.output_type}")
        condition = set(stage.references) - {stage.output_type, stage.accept}
        for name in condition:
            check_function(code[name], f"{where}: {name}")
        if stage.output_schema is not None and (fault := find_schema_fault(stage.output_schema)):
            raise ConfigError(f"{where}: {fault}.")
        own = tools_by_name([import_reference(name, where) for name in stage.tools.add], where)
        if own:
            stage_tools[stage.id] = own
    tools = tools_by_name([import_reference(name, file.name) for name in flow.tools], file.name)
    flow = _with_tool_names(flow, stage_tools).model_copy(update={"tools": ()})
    _check(flow, tools, InProgram(file.name, flow.model_dump(include={"stages"})))
    return LoadedFlow(flow.name, CompiledFlow(flow, tools, stage_tools, code))


def _check(flow: core.Flow, tools: Mapping[str, Tool], written: InProgram) -> None:
    """ConfigError for what is wrong in a flow whose tools are known."""
    specs = [*SPECS, *(tool.spec for tool in tools.values())]
    check_flow(flow, written, FLOW_NAMES._replace(tools=specs))
    # By their ids go the tools and results of stages, in whichever groups they are.
    known = Counter(stage.id for stage in core.all_stages(flow.stages))
    if doubled := next((name for name, count in known.items() if count > 1), ""):
        raise written.error((), f'two stages have the id "{doubled}"')


def _with_tool_names(flow: core.Flow, stage_tools: Mapping[str, Mapping[str, Tool]]) -> core.Flow:
    """The flow, whose stages name their tools as the model does, with the schemas of their types."""

    def renamed(stage: core.Stage) -> core.Stage:
        changed: dict[str, Any] = {}
        if stage.tools.add:
            changed["tools"] = stage.tools.model_copy(update={"add": tuple(stage_tools[stage.id])})
        if stage.stages:
            changed["stages"] = tuple(map(renamed, stage.stages))
        if stage.output_type and stage.output_schema is None:
            given = import_reference(stage.output_type)
            changed["output_schema"] = schema_of(given, f'stage "{stage.id}": {stage.output_type}')
        return stage.model_copy(update=changed) if changed else stage

    return flow.model_copy(update={"stages": tuple(map(renamed, flow.stages))})


@dataclass(frozen=True, slots=True)
class CompiledFlow:
    """A tree of stages, and what it names."""

    flow: core.Flow
    tools: Mapping[str, Tool]
    stage_tools: Mapping[str, Mapping[str, Tool]]
    code: Mapping[str, Any]
    """Functions and types, by the references in the tree."""


class _Compiler:
    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._code: dict[str, Any] = {}
        self._stage_tools: dict[str, dict[str, Tool]] = {}

    def compile(self) -> CompiledFlow:
        given = self._flow
        if isinstance(given.stages, Stage | str | Mapping):
            raise ConfigError(f'Flow "{given.name}": stages must be a list of Stage(...).')
        tools = tools_by_name(given.tools, f'flow "{given.name}"')
        data = {
            **given.options,
            "name": given.name,
            "description": given.description,
            "stages": [self._stage(stage) for stage in given.stages],
            "variables": dict(given.variables),
            "system": given.system,
            "max_parallel": given.max_parallel,
            "compaction": given.compaction,
            **{name: value for name in core.ERROR_NAMES if (value := getattr(given, name)) is not None},
        }
        written = InProgram(f'Flow "{given.name}"', data)
        try:
            flow = core.Flow.model_validate(data)
        except ValidationError as error:
            raise explain(error, written, core.Flow) from None
        _check(flow, tools, written)
        try:
            flow.model_dump_json()
        except PydanticSerializationError as error:
            # The log names the flow, with its variables and metadata.
            message = f"variables and metadata must be plain data: {error}"
            raise written.error((), message) from None
        for stage in core.all_stages(flow.stages):
            if unknown := next((name for name in stage.references if name not in self._code), ""):
                raise ConfigError(f'stage "{stage.id}": {unknown} is a name: give the function or the type.')
        return CompiledFlow(flow, tools, self._stage_tools, self._code)

    def _stage(self, stage: Stage) -> dict[str, Any]:
        if not isinstance(stage, Stage):
            raise ConfigError(f'Flow "{self._flow.name}": a stage must be a Stage(...), not {stage!r}.')
        where = f'stage "{stage.id}"'
        if stage.tool_mode not in ("extend", "exclusive"):
            raise ConfigError(f"{where}: tool_mode must be extend or exclusive, not {stage.tool_mode!r}.")
        if stage.accept is not None:
            check_function(stage.accept, f"{where}: accept")
        own = tools_by_name(stage.tools, where)
        if own:
            self._stage_tools[stage.id] = own
        known = {one.name for one in fields(stage)} & set(stage.options)
        if known:
            raise ConfigError(f"{where}: give `{min(known)}` as an argument, not in `options`.")
        data: dict[str, Any] = dict(stage.options)
        data |= {name: value for name in _SAME_NAMES if _is_said(name, value := getattr(stage, name))}
        if stage.name:
            data["label"] = stage.name
        if callable(stage.when):
            data["when"] = f"code:{self._refer(stage.when, f'{stage.id}/when')}"
        if stage.stages:
            data["stages"] = [self._stage(child) for child in stage.stages]
        if own or stage.tool_mode == "exclusive":
            exclusive = stage.tool_mode == "exclusive"
            data["tools"] = {"add": tuple(own), "exclusive": exclusive}
        if stage.output_schema is not None:
            data |= self._output(stage, where)
        if stage.accept is not None:
            data["accept"] = self._refer(stage.accept, f"{stage.id}/accept")
        return data

    def _output(self, stage: Stage, where: str) -> dict[str, Any]:
        """The schema of the output, and the type if there is one."""
        given = stage.output_schema
        if isinstance(given, Mapping):
            if fault := find_schema_fault(given):
                raise ConfigError(f"{where}: {fault}.")
            return {"output_schema": dict(given)}
        schema = schema_of(given, f"{where}: output_schema")
        return {"output_schema": schema, "output_type": self._refer(given, f"{stage.id}/output")}

    def _refer(self, given: Any, place: str) -> str:
        """The name of a function or type: its import path, if others can import it by that."""
        module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", "")
        reference = f"{module}:{name}" if _is_found(given, module, name) else f"local:{place}"
        self._code[reference] = given
        return reference


def _is_said(name: str, value: Any) -> bool:
    """Whether a stage says something with a field: an agent without options is one all the same."""
    if name == "max_parallel":
        return bool(value != 1)
    return value not in (None, "", ()) and (value != {} or name == "agent")


def _is_found(given: Any, module: str, name: str) -> bool:
    """Whether the import path of a function or type leads to it, and not to another one of the same name."""
    if module == "__main__" or not name or module not in sys.modules:
        return False
    try:
        return attrgetter(name)(sys.modules[module]) is given
    except AttributeError:
        return False
