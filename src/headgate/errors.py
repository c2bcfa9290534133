"""Every error Headgate raises on purpose, named by who reacts.

HeadgateError
├─ ConfigError            the user fixes it: exit 2
│  └─ ImageRefused        an image in a task that no model of it can be shown
├─ ToolError              the model sees it as a tool result
│  ├─ ToolDenied          a gate or a guard said no
│  ├─ ToolArgsInvalid     the arguments do not fit the tool
│  └─ ToolFailed          the tool tried and could not
│     └─ ToolUnavailable  nor can it if it is called again
├─ ModelError             decide() sees it
│  ├─ ModelUnavailable    wait and ask again
│  ├─ ModelRefused        asking again cannot help: wrong key, unknown model, bad request
│  ├─ ReplyInvalid        the reply cannot be used: tell the model and go on
│  └─ ContextOverflow     compact, then ask again
└─ StoreError             the operator fixes it: exit 3

Limits, stuck and failed are data, never exceptions.
"""

import errno
from typing import Literal


class HeadgateError(Exception):
    """The root. `str()` of any of these is one sentence fit for its audience."""


class ConfigError(HeadgateError):
    """A file, flag or environment variable is wrong; the message says which and what to write instead."""


class ImageRefused(ConfigError):
    """A task mentions an image that no model of it can be shown."""


class ToolError(HeadgateError):
    """A tool call that did not succeed; the message is written for the model."""

    slug = "tool_error"


class ToolDenied(ToolError):
    """The call is not allowed here."""

    slug = "denied"


class ToolArgsInvalid(ToolError):
    """The arguments cannot be used; the message says what the schema expects."""

    slug = "invalid_arguments"


class ToolFailed(ToolError):
    """The tool ran and could not do what was asked."""

    slug = "failed"


class ToolUnavailable(ToolFailed):
    """What the tool works with is not there: no call of it can succeed until a person has changed that."""

    slug = "unavailable"


class ModelError(HeadgateError):
    """A request to a model that returned no usable reply."""


class ModelUnavailable(ModelError):
    """No answer for now: connection lost, timed out, overloaded. Worth asking again."""

    server: Literal["", "away", "loading"] = "away"
    """What its server is at; empty where it is there and answers with an error."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The server will not answer this request however often it is sent."""


class ReplyInvalid(ModelError):
    """The model answered, and the answer cannot be used."""

    tokens: tuple[int, int, int] = (0, 0, 0)
    """What it cost nevertheless, in the order of a Usage; of a reply that was cut off that is estimated."""
    estimated: bool = False
    """Whether it is."""
    said: str = ""
    """What the model wrote, as far as that is known."""


class CallUnknown(ReplyInvalid):
    """The model called nothing but a tool that it was not offered."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class ContextOverflow(ModelError):
    """The request does not fit the model's context window."""


class StoreError(HeadgateError):
    """The store cannot be read or written."""


_FULL, _CLOSED = "free some space and run it again", "check who owns it and who may write there (ls -ld)"
_ADVICE = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: "mount it writable, or work in a copy of the repository elsewhere",
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EIO: "check the disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs, or raise the limit of open files",
}


def is_of_system(error: OSError) -> bool:
    """Whether the disk or the system refused something, and no code of Headgate is wrong."""
    return error.errno in _ADVICE


def describe_system(error: OSError, path: object = None) -> str:
    """What the system refused, where, and what to do about it: one sentence. `path`: what people call it."""
    named = path or error.filename
    where = f"{named}: " if named else ""
    advice = f": {_ADVICE[error.errno]}" if error.errno in _ADVICE else ""
    return f"{where}{error.strerror or error}{advice}."
