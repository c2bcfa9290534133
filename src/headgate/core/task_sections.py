"""The sections of a task's text: what it asks for, and what binds it.

A heading in the text (`Boundaries:`, `## Non-goals`, `- Goal: ...`) is a known name with a colon, in bold, as
a Markdown heading, or above a list. Its section is what stands behind it, a list, or the lines up to the next
blank line. What follows is the task again: a sentence that asks for something must never end up in a section.
A heading in what the text only quotes is none.
"""

import re
from typing import Literal

from headgate.core.boundary_text import bare_words, looks_like_path, unquote
from headgate.core.quoted_text import Quotation, find_quotations
from headgate.first_use import dataclass, regex

Section = Literal["keep", "non_goals", "boundaries", "goal"]
_TOUCHING = [
    f"{refusal} {verb}"
    for refusal in ("do not", "don't", "never")
    for verb in ("touch", "modify", "change", "edit", "write")
]
_HEADINGS: dict[str, Section] = {
    **dict.fromkeys(("constraint", "constraints", "keep", "preserve", "must keep", "must preserve"), "keep"),
    **dict.fromkeys(("non goal", "non goals", "nongoal", "nongoals", "not goals"), "non_goals"),
    **dict.fromkeys(("boundary", "boundaries", "out of bounds", "out of scope", "off limits"), "boundaries"),
    **dict.fromkeys(("protected", "protected paths", "protected files", *_TOUCHING), "boundaries"),
    **dict.fromkeys(("goal", "goals"), "goal"),
}
_NAME = r"(#{1,6}\s*)?(\*\*|__)?([A-Za-z][A-Za-z'\u2019 _-]{2,25}?)\s*(?:\([^()]*\))?\s*"
_WITH_COLON = regex(_NAME + r"(?(2)(?:\2\s*:|:\s*\2)|:)\s*(.*)")
_WITHOUT_COLON = regex(_NAME + r"(?(2)\2)\s*#*")
_BULLET = regex(r"\s*(?:[-*+\u2022\u2013\u2014]|\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_UNDERLINE = regex(r"\s*(?:-{3,}|={3,})\s*")
_OTHER_HEADING = regex(r"#{1,6}\s.*|(\*\*|__)[^*_]+\1:?|[A-Z][\w /-]{1,30}:")
_REFUSAL = regex(r"(?:do|don't|never|no|not|leave|keep|the|any\w*|all|every\w*)\b", re.IGNORECASE)
_NOTHING = frozenset({"none", "n/a", "nothing", "-"})
_WRAPPED = 50
"""A line at least this long may go on in the next one."""


@dataclass(frozen=True, slots=True)
class _Heading:
    section: Section
    rest: str
    """What stands behind it on the same line."""
    depth: int | None
    """How far the bullet is indented that it stands behind; None where there is none."""


def split_sections(text: str) -> tuple[str, dict[str, list[str]]]:
    """What a text asks for, and what each of its sections says, item by item.

    A section with the goal stays in what is asked for, unless there is nothing else.
    """
    reader = _Reader(text.splitlines())
    reader.read()
    found = {name: [item for item in map(str.strip, items) if item] for name, items in reader.found.items()}
    for name, items in found.items():
        found[name] = [item for item in items if item.lower().rstrip(".") not in _NOTHING]
    found["boundaries"] = [unquote(item) for item in found["boundaries"]]
    outside = "\n".join(line for line, in_goal in reader.request if not in_goal).strip()
    request = "\n".join(line for line, _ in reader.request).strip()
    return (request if outside else "\n".join(found["goal"])), found


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.request: list[tuple[str, bool]] = []
        """The lines outside of constraint sections, and whether each belongs to the goal's."""
        self.found: dict[str, list[str]] = {"keep": [], "non_goals": [], "boundaries": [], "goal": []}
        self._heading: _Heading | None = None
        self._mode: Literal["fresh", "inline", "bullets", "lines"] = "fresh"
        self._blank = False

    def read(self) -> None:
        quoted = {quotation.first: quotation for quotation in find_quotations(self._lines)}
        index = 0
        while index < len(self._lines):
            line = self._lines[index]
            if quotation := quoted.get(index):
                self._quote(quotation)
                index = quotation.end
                continue
            if heading := _read_heading(line, self._following(index)):
                self._begin(heading, line)
                index += bool(_UNDERLINE.fullmatch(self._following(index)))
            elif self._heading is None:
                self.request.append((line, False))
            else:
                self._continue(line, self._heading)
            index += 1

    def _following(self, index: int) -> str:
        return self._lines[index + 1] if index + 1 < len(self._lines) else ""

    def _quote(self, quotation: Quotation) -> None:
        """Part of the task. A fence is the items of a section that has none yet."""
        lines = self._lines[quotation.first : quotation.end]
        if quotation.is_fenced and self._heading is not None and self._mode == "fresh":
            self._mode = "lines"
            for line in lines[1:-1]:
                self._add(line, line, self._heading.section)
        else:
            self._heading = None
            self.request += [(line, False) for line in lines]

    def _begin(self, heading: _Heading, line: str) -> None:
        self._heading, self._blank = heading, False
        self._mode = "inline" if heading.rest else "fresh"
        self._add(heading.rest, line, heading.section)

    def _add(self, item: str, line: str, section: Section, *, to_last: bool = False) -> None:
        if to_last:
            self.found[section][-1] += f" {item.strip()}"
        else:
            self.found[section].append(item.strip())
        if section == "goal":
            self.request.append((line, True))

    def _continue(self, line: str, heading: _Heading) -> None:
        """A line below a heading: part of its section, or the end of it."""
        if not line.strip():
            self._blank = True
            self.request += [(line, True)] if heading.section == "goal" else []
        elif not self._belongs(line, heading):
            self._heading = None
            self.request.append((line, False))

    def _belongs(self, line: str, heading: _Heading) -> bool:
        section, blank, mode = heading.section, self._blank, self._mode
        if _OTHER_HEADING.fullmatch(line.strip()):
            return False
        self._blank = False
        if bullet := _BULLET.match(line):
            nested = heading.depth is None or _indent(line) > heading.depth
            if not nested or (blank and mode in ("inline", "lines")):
                return False
            self._mode = "bullets"
            self._add(bullet[1], line, section)
            return True
        if mode in ("inline", "bullets") and line[0].isspace() and not (blank and mode == "inline"):
            self._add(line, line, section, to_last=True)
            return True
        if section == "boundaries" and _is_paths(line):
            self._mode = "lines"
            self._add(line, line, section)
            return True
        if section == "boundaries" and _is_sentence(line) and (blank or mode != "fresh"):
            return False
        if mode == "fresh" or (mode == "lines" and not blank):
            self._add(line, line, section, to_last=mode == "lines" and self._goes_on(line, section))
            self._mode = "lines"
            return True
        return False

    def _goes_on(self, line: str, section: Section) -> bool:
        """Whether a line without a bullet is the rest of the one above it, which was too long."""
        last = self.found[section][-1] if self.found[section] else ""
        wrapped = len(last) >= _WRAPPED and not last.endswith((".", ";", "!", "?"))
        return section != "boundaries" and wrapped and line.strip()[:1].islower()


def _read_heading(line: str, following: str) -> _Heading | None:
    text = line.strip().removeprefix(">").strip()
    bullet = _BULLET.fullmatch(text)
    depth = _indent(line) if bullet else None
    text = bullet[1] if bullet else text
    if (found := _WITH_COLON.fullmatch(text)) and (section := _section(found[3])):
        return _Heading(section, found[4].strip(), depth)
    if (found := _WITHOUT_COLON.fullmatch(text)) and (section := _section(found[3])):
        above_list = not bullet and (_BULLET.match(following) or _UNDERLINE.fullmatch(following))
        if found[1] or found[2] or above_list:
            return _Heading(section, "", depth)
    return None


def _section(name: str) -> Section | None:
    words = re.sub(r"[\s_-]+", " ", name.lower().replace("\u2019", "'")).strip()
    return _HEADINGS.get(words)


def _is_paths(line: str) -> bool:
    """Whether a line is nothing but paths."""
    words = [word for word in bare_words(line.replace(",", " ")) if word]
    return bool(words) and all(map(looks_like_path, words))


def _is_sentence(line: str) -> bool:
    """Whether a line asks for something rather than naming what is out of bounds."""
    words = line.split()
    asks = len(words) > 3 and line.rstrip().endswith((".", "!", "?"))
    return asks and not _REFUSAL.match(line.strip()) and not any(map(looks_like_path, bare_words(line)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
