"""Whether a call is meant, or only talked about: in inline code, or announced as an example."""

import re

_EXAMPLE = re.compile(
    r"\b(?:examples?|e\.g\.|for instance|(?:you|one|it|this) (?:would|could|might|can)|looks? like)\b"
    r".{0,80}:\s*\Z",
    re.IGNORECASE,
)
_TRAILING_TAGS = re.compile(r"(?:\s{0,8}<[^<>\s]{1,40}>){1,4}\s*\Z")
_LOOK_BACK = 240


class Quoting:
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
