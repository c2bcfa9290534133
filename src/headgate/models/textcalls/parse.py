"""Takes a whole reply apart."""

from collections.abc import Sequence

from headgate.core.messages import ToolSpec
from headgate.models.jsontext import mend_text
from headgate.models.textcalls.pieces import Piece, assemble
from headgate.models.textcalls.result import Parsed
from headgate.models.textcalls.scan import MARK, Scan
from headgate.models.textcalls.source import OutOfWork, Source
from headgate.models.textcalls.table import FRAMES, NAMES
from headgate.models.textcalls.toolbook import ToolBook


def parse_calls(
    text: str, tools: Sequence[ToolSpec], family: str | None = None, thinking: bool = False
) -> Parsed:
    """The calls, the text and the thinking in a model's reply. Never raises on a reply, whatever it holds.

    `family` is how the model is known to write calls: its form is then tried first, and forms that are too
    plain to be told from text without it are read as well; other forms are still found. `thinking` says that
    the prompt ends inside the thinking, so that the reply begins there. ValueError for an unknown family.
    """
    if family is not None and family not in NAMES:
        raise ValueError(f'There is no family "{family}"; the families are {", ".join(sorted(NAMES))}.')
    text = mend_text(text)
    try:
        return _parse(text, ToolBook(tools), family, thinking)
    except (OutOfWork, RecursionError):
        return Parsed(text)


def _parse(text: str, book: ToolBook, family: str | None, thinking: bool) -> Parsed:
    # A mark of a frame counts only before the first call: arguments may hold anything.
    first = MARK.search(text)
    head = text[: first.start()] if first else text
    for frame in FRAMES:
        if frame.claims(head, frame.name == family):
            return assemble(frame.read(Source(text), book), book, frame.whole_batch)
    if family == "kimi-k3" and thinking:
        return assemble([Piece("reasoning", text)], book)
    return assemble(Scan(Source(text), book, family or "", thinking).pieces(), book)
