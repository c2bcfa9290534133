"""Earlier and undone states of a list of lines."""


class EditHistory:
    """Two stacks of states: those to undo to and those to redo to."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError("the history needs room for one state")
        self._limit = limit
        self._earlier: list[list[str]] = []
        self._undone: list[list[str]] = []

    def record(self, state: list[str]) -> None:
        """Keep a copy of the state before a new change; the oldest states above the limit go."""
        self._earlier.append(list(state))
        self._undone.clear()
        if len(self._earlier) > self._limit:
            self._earlier.pop(0)

    def undo(self, current: list[str]) -> list[str] | None:
        """Return the state before the last change and keep `current` for redo."""
        if not self._earlier:
            return None
        self._undone.append(current)
        return self._earlier.pop()

    def redo(self, current: list[str]) -> list[str] | None:
        """Return the state that was undone last and keep `current` for undo."""
        if not self._undone:
            return None
        self._earlier.append(current)
        return self._undone.pop()
