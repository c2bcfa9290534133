"""Results that fit: nothing of unbounded length enters a model's context."""

from collections.abc import Callable


def cap(text: str, limit: int, save: Callable[[str], str]) -> str:
    """The text if it fits; otherwise its head and tail, and between them a line that says what was cut.

    `save` keeps the whole text and returns the name under which read_file finds it. The result is never
    longer than `limit`.
    """
    if len(text) <= limit:
        return text
    name = save(text)
    room = limit - len(_note(len(text), text.count("\n"), name, text.count("\n") + 1)) - 2
    if room <= 0:
        return _note(len(text), text.count("\n"), name, 1)[: max(0, limit)]
    head = text[: room // 2]
    tail = text[len(text) - (room - len(head)) :]
    # Cutting inside a line is for texts of few, very long lines only.
    border = head.rfind("\n") + 1
    if border > len(head) // 2:
        head = head[:border]
    border = tail.find("\n") + 1
    if 0 < border < len(tail) // 2:
        tail = tail[border:]
    cut = text[len(head) : len(text) - len(tail)]
    before = "" if head.endswith("\n") or not head else "\n"
    note = _note(len(cut), cut.count("\n"), name, head.count("\n") + 1)
    return f"{head}{before}{note}\n{tail}"


def _note(characters: int, lines: int, name: str, start: int) -> str:
    return (
        f"[... {characters:,} characters ({lines:,} lines) cut; full output: {name};"
        f" to continue, call read_file with start_line={start} ...]"
    )
