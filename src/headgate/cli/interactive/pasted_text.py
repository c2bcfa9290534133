"""Long pasted text, which the prompt shows as a few words: `[pasted 212 lines]`."""

from collections.abc import Callable

from headgate.cli.task_text import TaskInput, put_in, read_pasted

MOST_LINES, MOST_CHARS = 6, 1_000
"""What is shown as it is. More than that is hard to edit in a prompt."""


class PastedTexts:
    """Keeps what was pasted, for the lines that name it."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def shorten(self, pasted: str) -> str:
        """What the prompt shows of a pasted text."""
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= MOST_LINES and len(text) <= MOST_CHARS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        same = sum(name.startswith(f"[pasted {size}") for name in self._kept)
        name = f"[pasted {size}, {same + 1}]" if same else f"[pasted {size}]"
        self._kept[name] = text
        return name

    def expand(self, line: str) -> str:
        """A line with the whole of what was pasted into it, on lines of its own."""
        return put_in(line, self._kept)

    def read(self, line: str, tell: Callable[[str], None]) -> TaskInput:
        """The task that a line is, with pasted output attached to it."""
        return read_pasted(line, self._kept, tell)
