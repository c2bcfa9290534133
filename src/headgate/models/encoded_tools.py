"""Tool lists as bytes: each list is encoded once."""

from collections.abc import Callable

from headgate.core.messages import ToolSpec

_MOST = 64


class EncodedTools:
    """Remembers how tool lists look on the wire; specs are compared by identity, which is cheap."""

    def __init__(self, encode: Callable[[tuple[ToolSpec, ...]], bytes]) -> None:
        self._encode = encode
        self._known: dict[tuple[ToolSpec, ...], bytes] = {}

    def get(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """The part of a request's body that offers these tools; nothing if there are none."""
        if not tools:
            return b""
        data = self._known.get(tools)
        if data is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            data = self._known[tools] = self._encode(tools)
        return data
