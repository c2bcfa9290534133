"""Calls of a program's own functions, in the event loop or in a thread: what they raise becomes an answer."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from itertools import islice
from threading import Thread
from typing import Any

from headgate.errors import ToolError, ToolFailed

MOST_VALUES = 10_000
"""Of a generator: it may have no end."""
_SAID_CHARS = 2_000


async def call_function(
    name: str, function: Callable[..., Any], values: dict[str, Any], timeout: float | None
) -> Any:
    """What a function returns. ToolFailed, by the name of its tool, if it raises or takes too long."""
    try:
        async with asyncio.timeout(timeout) as limit:
            return await _call(function, values)
    except TimeoutError as error:
        if not limit.expired():
            raise _failure(name, error) from error
        raise ToolFailed(f"{name} did not end within {timeout:g} s.") from None
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _failure(name, error) from error
    except (ToolError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _failure(name, error) from error


async def _call(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    result = await _call_in_thread(function, values)
    if inspect.isawaitable(result):
        result = await result
    return [value async for value in _first(result)] if isinstance(result, AsyncIterator) else result


async def _first(values: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Values, and not more than anybody can read: there may be no end to them."""
    left = MOST_VALUES
    async for value in values:
        yield value
        left -= 1
        if not left:
            return


class _Raised(Exception):
    """Carries what a thread raised: some exceptions mean something to whoever waits for it."""


async def _call_in_thread(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """In a thread of its own: if it does not end, neither other calls nor the program wait for it."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def give(result: Any, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_result((result, error))

    def work() -> None:
        result, raised = None, None
        try:
            result = function(**values)
            if isinstance(result, Iterator):
                result = list(islice(result, MOST_VALUES))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the model is told
            raised = error
        try:
            loop.call_soon_threadsafe(give, result, raised)
        except RuntimeError:
            return  # the loop is closed, and nobody waits any more

    Thread(target=copy_context().run, args=(work,), name=f"tool {function!r:.60}", daemon=True).start()
    result, raised = await answer
    if isinstance(raised, ToolError):
        raise raised
    if raised is not None:
        raise _Raised from raised
    return result


def _failure(name: str, error: BaseException) -> ToolFailed:
    """What the model is told about an exception."""
    if isinstance(error, _Raised) and error.__cause__ is not None:
        error = error.__cause__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the exception's own code; its name is said all the same
        text = ""
    said = " ".join(f"{type(error).__name__}: {text[:_SAID_CHARS]}".split()).rstrip(":. ")
    return ToolFailed(f"{name} failed with {said}.")
