"""JSON values, one per line, from bytes that arrive in any pieces."""

from headgate.models.sse import SseEvent


class LineParser:
    """Feed it bytes; it returns the lines that they complete, each as an event."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The lines that are complete with this chunk; an empty chunk completes the last one."""
        if not chunk:
            chunk = b"\n"
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return [SseEvent(line.decode("utf-8", "replace")) for line in lines if line.strip()]


def is_line_stream(content_type: str) -> bool:
    """Whether a Content-Type header announces one JSON value per line."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence in ("application/x-ndjson", "application/ndjson", "application/jsonl")
