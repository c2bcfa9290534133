"""What a tool is: a function, its arguments as a pydantic model, and a category.

    class ReadFile(Args):
        path: str = Field(description="Path of the file, relative to the repository")

    @tool("read")
    def read_file(ctx: ToolContext, args: ReadFile) -> Outcome:
        "Read a file."

A tool that writes returns the changes it wants; the runtime records them and has the workspace apply them.
A plain function runs in a thread; a coroutine function runs in the event loop.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from headgate.core.messages import Category, ToolSpec
from headgate.errors import ToolArgsInvalid
from headgate.host.workspace import FileChange, Workspace


class Args(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool brought. `text` is what the model reads."""

    text: str
    read: tuple[str, ...] = ()
    """Canonical paths of the files whose content the model was given."""
    changes: tuple[FileChange, ...] = ()
    """What is to be written; the runtime does it."""
    signal: "Signal | None" = None
    """Set by control tools: what the loop should take note of."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A control tool's message to the loop, with its validated arguments."""

    kind: Literal["stage_done", "plan_written"]
    data: Mapping[str, Any]


@dataclass(frozen=True)
class ToolContext:
    """The ports that tools are given. The engine fills them."""

    workspace: Workspace
    save_output: Callable[[str], str]
    """Keeps a long text and returns the path under which `read_file` finds it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What commands see of the environment: already filtered."""
    result_chars: int = 16_000
    """The cap on a result's length."""
    shell_timeout: float = 120.0
    """Seconds a command may take when the call names no time."""
    ripgrep: str | None = None
    """The `rg` executable, where there is one."""
    on_output: Callable[[str], None] = lambda line: None
    """Hears each line that a running command prints, for people to watch."""


ToolFunction = Callable[[ToolContext, Any], Outcome | Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function that a model may call."""

    spec: ToolSpec
    args: type[Args]
    function: ToolFunction
    is_async: bool

    @property
    def name(self) -> str:
        return self.spec.name

    def parse(self, arguments: Mapping[str, Any]) -> Args:
        """The arguments, validated. ToolArgsInvalid says what is wrong and what the tool takes."""
        try:
            return self.args.model_validate(arguments)
        except ValidationError as error:
            raise ToolArgsInvalid(f"{self.name}: {describe(error)}. It takes {self.usage()}.") from None

    def usage(self) -> str:
        """The arguments in one line: `path, start_line?, end_line?`."""
        fields = self.args.model_fields
        return (
            ", ".join(name if info.is_required() else f"{name}?" for name, info in fields.items())
            or "no arguments"
        )


def tool(category: Category) -> Callable[[ToolFunction], Tool]:
    """Makes a Tool of a function: its name and docstring are what the model is shown."""

    def wrap(function: ToolFunction) -> Tool:
        args: type[Args] = get_type_hints(function)["args"]
        spec = ToolSpec(
            function.__name__, inspect.cleandoc(function.__doc__ or ""), parameters_of(args), category
        )
        return Tool(spec, args, function, inspect.iscoroutinefunction(function))

    return wrap


def parameters_of(args: type[BaseModel]) -> dict[str, Any]:
    """A JSON schema as small as models need it: no titles, no references, no `anyOf` with null."""
    schema = args.model_json_schema()
    definitions = schema.pop("$defs", {})
    slim = _slim(schema, definitions)
    assert isinstance(slim, dict)
    slim.pop("description", None)
    slim.setdefault("properties", {})
    return slim


def _slim(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_slim(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _slim(definitions[node["$ref"].rsplit("/", 1)[-1]], definitions)
    options = [option for option in node.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        node = {
            **options[0],
            **{key: value for key, value in node.items() if key not in ("anyOf", "default")},
        }
    return {
        key: {name: _slim(value, definitions) for name, value in item.items()}
        if key == "properties"
        else _slim(item, definitions)
        for key, item in node.items()
        if not (key == "title" and isinstance(item, str)) and not (key == "default" and item is None)
    }


def describe(error: ValidationError) -> str:
    """What is wrong with a set of arguments, in one line."""
    problems = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        match item["type"]:
            case "missing":
                problems.append(f"`{where}` is missing")
            case "extra_forbidden":
                problems.append(f"there is no argument `{where}`")
            case _:
                problems.append(f"`{where}`: {item['msg'][:1].lower()}{item['msg'][1:]}")
    return "; ".join(problems[:5])
