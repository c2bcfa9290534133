"""A notepad of lines with undo and redo."""

from edit_history import EditHistory


class Notepad:
    """Lines of text; every change can be undone."""

    def __init__(self, undo_limit: int = 100) -> None:
        self._lines: list[str] = []
        self._history = EditHistory(undo_limit)

    @property
    def text(self) -> str:
        """The lines joined by line breaks."""
        return "\n".join(self._lines)

    def write(self, line: str) -> None:
        """Add a line at the end."""
        self._history.record(self._lines)
        self._lines.append(line)

    def delete(self, index: int) -> None:
        """Delete the line with the given index."""
        if not 0 <= index < len(self._lines):
            raise IndexError(f"no line {index}")
        self._history.record(self._lines)
        del self._lines[index]

    def undo(self) -> bool:
        """Take the last change back; tell whether there was one."""
        state = self._history.undo(self._lines)
        if state is None:
            return False
        self._lines = state
        return True

    def redo(self) -> bool:
        """Make the change again that was undone last; tell whether there was one."""
        state = self._history.redo(self._lines)
        if state is None:
            return False
        self._lines = state
        return True
