"""Functions of the program that runs a flow: conditions, judges of outputs, callbacks, storage."""

import inspect
from collections.abc import Callable
from typing import Any

from headgate.errors import HeadgateError


class ProgramFailed(HeadgateError):
    """A function of the program raised an exception."""


async def call_program(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, be it a coroutine function or not. ProgramFailed if it raises."""
    try:
        answer = function(*arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":. ")
        raise ProgramFailed(said) from error
