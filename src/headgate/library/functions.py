"""Python functions as tools: the model sees their names, their docstrings and their parameters."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, get_args, overload

from headgate.core import COMPLETE_TOOL, DONE_TOOL, FAIL_TOOL, START_TOOL, TOOL_ALIASES, Category, ToolSpec
from headgate.engine import SPECS
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.library.calling import call_function
from headgate.library.docstrings import read_docstring
from headgate.library.parameters import make_arguments, read_parameters
from headgate.tools import Args, Tool, ToolContext

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__headgate_tool__"
_MOST_NAME = 64


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was said about a function when it was made a tool."""

    name: str | None = None
    description: str | None = None
    category: Category = "run"
    timeout: float | None = None
    function: Any = None
    made: Tool | None = None
    """The tool, unless it is a method that has no object yet."""


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

    `category` says what it does: `read` may be repeated after a crash, `run` (the default) and the others are
    not. `timeout` is in seconds. The function may be a coroutine function; others run in a thread.
    """
    known = get_args(Category)
    if category not in known:
        raise ConfigError(f'A tool cannot have the category "{category}": use {", ".join(known)}.')
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        raise ConfigError(f"The timeout of a tool is a number of seconds above 0, not {timeout!r}.")
    wanted = _Wanted(name, description, category, timeout)

    def mark(marked: Any) -> Any:
        inner = marked.__func__ if isinstance(marked, staticmethod | classmethod) else marked
        if not callable(inner):
            raise ConfigError(f"{marked!r} is not a tool: give a function.")
        made = None if _is_method(inner) else _make(inner, wanted)
        noted = replace(wanted, made=made)
        try:
            setattr(inner, _MARK, replace(noted, function=inner))
        except (AttributeError, TypeError):
            # Nothing can be noted on it, such as the method of an object: a stand-in is called instead.
            marked = functools.partial(inner)
            setattr(marked, _MARK, replace(noted, function=marked))
        return marked

    return mark if function is None else mark(function)


def _is_method(function: Any) -> bool:
    """Whether it is defined in a class and waits for its object."""
    if not inspect.isfunction(function):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name in ("self", "cls") and first.annotation is first.empty


def as_tool(given: Any, where: str) -> Tool:
    """The tool that was given as one, or as a function. ConfigError if it is neither."""
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise ConfigError(f"{where}: {given!r} is not a tool: give a function.")
    wanted = getattr(given, _MARK, None)
    if not isinstance(wanted, _Wanted):
        wanted = _Wanted()
    # Around the function there may be another one now, or an object has come to the method.
    if wanted.made is not None and wanted.function is given:
        return wanted.made
    try:
        if _is_method(given):
            raise ConfigError(f"{given.__qualname__} is a method: give it from an object.")
        return _make(given, wanted)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


_RESERVED = {
    DONE_TOOL,
    START_TOOL,
    COMPLETE_TOOL,
    FAIL_TOOL,
    *(alias for alias, name in TOOL_ALIASES.items() if name == DONE_TOOL),
    *(spec.name for spec in SPECS if spec.category == "control"),
}
"""How a model talks to the runtime."""


def tools_by_name(given: Sequence[Any], where: str) -> dict[str, Tool]:
    """Tools by name. ConfigError if two of one level have the same, or one has a name of Headgate's own."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{where}: tools must be a list of functions, not {given!r}.")
    found: dict[str, tuple[Tool, Any]] = {}
    for each in given:
        made = as_tool(each, where)
        if made.name in _RESERVED:
            raise ConfigError(
                f"{where}: {_place_of(each)} cannot be called {made.name}: that is a tool of Headgate's own."
            )
        if made.name in found:
            raise ConfigError(
                f"{where}: two tools are called {made.name}: {_place_of(found[made.name][1])} and "
                f"{_place_of(each)}. Rename one."
            )
        found[made.name] = made, each
    return {name: made for name, (made, _) in found.items()}


def _place_of(given: Any) -> str:
    """Where a function is defined, for people."""
    function = _plain(given)
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(given))}".lstrip(
        "."
    )
    return f"{name} (line {code.co_firstlineno})" if code else name


def _plain(function: Any) -> Any:
    """The function behind a partial one or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function) or isinstance(function, Tool):
        return function
    return type(function).__call__


def _make(function: Callable[..., Any], wanted: _Wanted) -> Tool:
    plain = _plain(function)
    own = wanted.name or str(getattr(plain, "__name__", ""))
    if wanted.name is None and plain is not function and not isinstance(function, functools.partial):
        own = type(function).__name__
    if not (own.isascii() and own.isidentifier()) or len(own) > _MOST_NAME:
        raise ConfigError(
            f'A tool cannot be called "{own}": give it a name of letters, digits and underscores, '
            f"at most {_MOST_NAME} characters."
        )
    text, about = read_docstring(_docstring_of(function, plain))
    fields, keys = read_parameters(function, plain, own, about)
    args, parameters = make_arguments(own, fields)
    spec = ToolSpec(own, wanted.description or text, parameters, wanted.category)

    async def call(context: ToolContext, args: Args) -> Any:
        values = {name: getattr(args, key) for name, key in keys.items()}
        return await call_function(own, function, values, wanted.timeout)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return Tool(spec, args, call, is_async=True, acts_itself=wanted.category != "read")


def function_of(tool: Tool) -> Callable[..., Any] | None:
    """The function that a tool was made of; None for a tool that Headgate has itself."""
    return getattr(tool.function, "__wrapped__", None)


def _docstring_of(function: Any, plain: Any) -> str:
    """That of the function, or of the class of an object that can be called."""
    own = inspect.getdoc(plain) or ""
    if plain is type(function).__call__ and not plain.__doc__:
        own = inspect.getdoc(type(function)) or ""
    return own
