"""Server-sent events, parsed as the HTML standard says, from bytes that arrive in any pieces."""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event. `id` is the last event id, which stays until another one is sent."""

    data: str
    type: str = "message"
    id: str = ""


class SseParser:
    """Feed it bytes; it returns the events that they complete. An event without its blank line is dropped."""

    def __init__(self) -> None:
        self.retry: int | None = None
        """The reconnection time in milliseconds, where the server named one."""
        self._line: list[bytes] = []
        self._first_line = True
        self._skip_newline = False
        self._data: list[str] = []
        self._type = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that are complete with this chunk."""
        if not chunk:
            return []
        # A carriage return ends its line at once; the newline of a split CR LF comes with the next chunk.
        start = 1 if self._skip_newline and chunk.startswith(b"\n") else 0
        self._skip_newline = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk[start:])
        events = []
        for line in lines:
            if self._line:
                line = b"".join((*self._line, line))
                self._line.clear()
            if event := self._take(line):
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def _take(self, line: bytes) -> SseEvent | None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        data, kind = self._data, self._type
        self._data, self._type = [], ""
        return SseEvent("\n".join(data), kind or "message", self._id) if data else None


def is_event_stream(content_type: str) -> bool:
    """Whether a Content-Type header announces an event stream, which is UTF-8 and nothing else."""
    essence, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charset = next((part[8:].strip('"') for part in parameters if part.startswith("charset=")), "utf-8")
    return essence == "text/event-stream" and charset in ("utf-8", "utf8")
