"""Ids for tool calls: unique in a transcript whatever a server sends."""

from collections.abc import Collection, Iterable

from headgate.core.messages import Message


class CallIds:
    """Gives each call of a reply an id that is unique in the transcript, the server's own if possible."""

    def __init__(self, messages: Iterable[Message], used: Collection[str] = ()) -> None:
        self._used = {call.id for message in messages for call in message.calls}.union(used)
        self._number = 0

    def take(self, proposed: str) -> str:
        """The proposed id, or the next free `call_N`."""
        name = proposed
        while not name or name in self._used:
            self._number += 1
            name = f"call_{self._number}"
        self._used.add(name)
        return name
