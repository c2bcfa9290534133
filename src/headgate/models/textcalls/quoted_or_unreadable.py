"""Marked text that is no call to run: it is quoted as an example, or it cannot be read."""

import re
from collections.abc import Sequence

from headgate.models.textcalls.json_families import guess_name
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import CallAttempt, CallsFound
from headgate.models.textcalls.source import Source

_EXAMPLE = re.compile(
    r"\b(?:examples?|e\.g\.|for instance|(?:you|one|it|this) (?:would|could|might|can)|looks? like)\b"
    r".{0,80}:\s*\Z",
    re.IGNORECASE,
)
_TRAILING_TAGS = re.compile(r"(?:\s{0,8}<[^<>\s]{1,40}>){1,4}\s*\Z")
_LOOK_BACK = 240


class QuotedText:
    """Answers for positions that only grow, so that a reply is looked at once."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._counted = start
        self._odd = False

    def skip_to(self, position: int) -> None:
        """Leaves a part out, such as a call with its arguments."""
        self._counted = max(self._counted, position)
        self._odd = False

    def is_quoted(self, start: int, end: int) -> bool:
        """Whether the part stands in inline code, or the line before it announces an example."""
        return self._is_inline(start, end) or self._is_example(start)

    def _is_inline(self, start: int, end: int) -> bool:
        line = self._text.rfind("\n", self._counted, start) + 1
        if line:
            self._counted, self._odd = line, False
        self._odd ^= self._text.count("`", self._counted, start) % 2 == 1
        self._counted = start
        if not self._odd:
            return False
        line_end = self._text.find("\n", end, end + 400)
        return self._text.find("`", end, line_end if line_end >= 0 else end + 400) >= 0

    def _is_example(self, start: int) -> bool:
        before = self._text[max(0, start - _LOOK_BACK) : start]
        before = _TRAILING_TAGS.sub("", before).rstrip()
        return _EXAMPLE.search(before[before.rfind("\n") + 1 :]) is not None


# Marked calls that no reader understands: each is answered with a correction, never passed over in silence.


_ORDINARY = re.compile(r"<(?!longcat_|start_function_call)[A-Za-z]")
"""Tags that may stand in text about something else."""
_NEVER = ("<tools>", "<tool>")
"""Tags that hold descriptions of tools as often as calls."""
_NAME = re.compile(r"""[\s\[{"']*+(?:call:)?([\w.\-]{1,128}+)""")


def find_unreadable(
    source: Source, mark: re.Match[str], closings: Sequence[str], book: ToolBook
) -> CallsFound | None:
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
    return CallsFound(end, (CallAttempt(name, None, "", "unreadable"),))
