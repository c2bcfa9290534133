"""Marked calls that no reader understands: each is answered with a correction, never passed over in silence.

A mark that a model writes only to call (`<|tool_call_start|>`, `[TOOL_CALLS]`) says enough. A tag that stands
in ordinary text as well (`<tool_call>`) counts if something like a call follows it, or if it is closed.
"""

import re
from collections.abc import Sequence

from headgate.models.textcalls.result import Attempt, Found
from headgate.models.textcalls.shapes import guess_name
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.toolbook import ToolBook

_ORDINARY = re.compile(r"<(?!longcat_|start_function_call)[A-Za-z]")
"""Tags that may stand in text about something else."""
_NEVER = ("<tools>", "<tool>")
"""Tags that hold descriptions of tools as often as calls."""
_NAME = re.compile(r"""[\s\[{"']*+(?:call:)?([\w.\-]{1,128}+)""")


def find_unreadable(
    source: Source, mark: re.Match[str], closings: Sequence[str], book: ToolBook
) -> Found | None:
    """The attempt that begins with this mark, up to the mark that closes it; None where it is none.

    `mark.re` finds all marks: where one follows at once, that one tells.
    """
    text, start = source.text, source.skip_space(mark.end())
    following = mark.re.match(text, start)
    if mark[0] in _NEVER or (following and not (following["think"] or following["answer"])):
        return None
    places = [(place, closing) for closing in closings if (place := source.find(closing, start)) >= 0]
    place, closing = min(places, default=(-1, ""))
    end = place + len(closing) if places else mark.end()
    head = _NAME.match(text, start)
    named = head is not None and book.find(head[1]) is not None
    if _ORDINARY.match(mark[0]):
        inner = mark.re.search(text, start, max(place, start))
        if inner or not (named or text[start : start + 1] in ("{", "[") or text[start : max(place, start)]):
            return None
    elif not text[start:].strip():
        return None
    name = head[1] if head and named else guess_name(text, start)
    return Found(end, (Attempt(name, None, "", "unreadable"),))
