"""Python functions as tools: the model sees their names, their docstrings and their parameters."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from headgate.core import Category, ToolSpec
from headgate.errors import ConfigError, ToolFailed
from headgate.tools import Args, Tool, ToolContext, parameters_of

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__headgate_tool__"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):\s*$")
_ARGUMENT = re.compile(r"^\s+(\w+)(?:\s*\([^)]*\))?:\s*(.+)$")


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    category: Category = "run",
    timeout: float | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    category: Category = "run",
    timeout: float | None = None,
) -> Any:
    """Makes a function a tool. The function itself stays as it is.

    `category` says what it does: `read` may be repeated after a crash, `run` (the default) and `write` are
    not. `timeout` is in seconds. The function may be a coroutine function; others run in a thread.
    """

    def mark(marked: F) -> F:
        setattr(marked, _MARK, _make(marked, name, description, category, timeout))
        return marked

    return mark if function is None else mark(function)


def as_tool(given: Any, where: str) -> Tool:
    """The tool that was given as one, or as a function. ConfigError if it is neither."""
    if isinstance(given, Tool):
        return given
    made = getattr(given, _MARK, None)
    if isinstance(made, Tool):
        return made
    if not callable(given):
        raise ConfigError(f"{where}: {given!r} is no tool: give a function.")
    return _make(given, None, None, "run", None)


def _make(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    category: Category,
    timeout: float | None,
) -> Tool:
    own = name or str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(own):
        raise ConfigError(
            f'A tool cannot be called "{own}": give it a name of letters, digits and underscores.'
        )
    text, about = _read_docstring(inspect.getdoc(function) or "")
    args = create_model(f"{own}_arguments", __base__=Args, **dict(_fields(function, own, about)))
    spec = ToolSpec(own, description or text, parameters_of(args), category)

    async def call(context: ToolContext, args: Args) -> Any:
        values = {field: getattr(args, field) for field in type(args).model_fields}
        try:
            async with asyncio.timeout(timeout):
                if inspect.iscoroutinefunction(function):
                    return await function(**values)
                return await asyncio.to_thread(_plain_call, function, values)
        except TimeoutError:
            if timeout is None:
                raise
            raise ToolFailed(f"{own} did not end within {timeout:g} s.") from None

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return Tool(spec, args, call, is_async=True, acts_itself=category != "read")


def function_of(tool: Tool) -> Callable[..., Any] | None:
    """The function that a tool was made of; None for a tool that Headgate has itself."""
    return getattr(tool.function, "__wrapped__", None)


def _plain_call(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    try:
        return function(**values)
    except StopIteration as error:
        # No future can hold this exception: whoever waits for the thread would wait forever.
        raise RuntimeError("StopIteration") from error


def _fields(function: Callable[..., Any], name: str, about: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """The parameters as fields of a model. ConfigError if one cannot be given by name, or has no type."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(
                f"The tool {name} has the parameter {parameter}, which cannot be given by name."
            )
        if parameter.name not in hints:
            raise ConfigError(f"The tool {name} needs a type for its parameter {parameter.name}.")
        default = ... if parameter.default is parameter.empty else parameter.default
        given = (
            default
            if isinstance(default, FieldInfo)
            else Field(default, description=about.get(parameter.name))
        )
        yield parameter.name, (hints[parameter.name], given)


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a docstring says before its sections, and what it says about each parameter."""
    said: list[str] = []
    about: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        elif not section:
            said.append(line)
        elif section in ("Args", "Arguments", "Parameters") and (found := _ARGUMENT.match(line)):
            about[found[1]] = found[2].strip()
    return "\n".join(said).strip(), about
