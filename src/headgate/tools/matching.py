"""Finding a block of lines in a text: exactly, then ever more tolerantly, and the nearest miss.

Pure functions from text to text. Tolerance is a ladder of levels; the first level at which anything matches
decides, so a loose match never competes with a strict one. A level that looks past indentation matches only
where one rule turns the wanted indentation into the text's own, and that rule comes with the match: new
lines are indented by it.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from fractions import Fraction
from heapq import nlargest

from headgate.core import clean_text
from headgate.errors import ToolFailed
from headgate.first_use import dataclass, regex

Reindent = Callable[[str], str | None]
"""Turns the indentation of a wanted line into the text's own; None where it cannot be told."""

_LINE_END = regex(r"\r\n|\n|\r")
_WORDS = regex(r"\w+")
_CONFUSABLES = str.maketrans(
    dict.fromkeys("‘’‚‛′", "'")
    | dict.fromkeys("“”„‟″", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys(
        "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
    )
    | dict.fromkeys("\u200b\ufeff", "")
    | {"…": "..."}
)
_MOST_COMPARISONS = 50_000_000
_MOST_PLACES = 1000
_TOO_MANY = "Too many places look like this text. Choose lines that occur less often. Nothing was changed."
_SHOWN_LINES = 20
_SHOWN_WIDTH = 200
_FUZZY_LINES = 20_000
"""Lines of a text that are compared word by word when no line of a block is found."""


@dataclass(frozen=True, slots=True)
class TextLines:
    """A text as lines and what ends each: `\\n`, `\\r\\n`, `\\r`, or nothing at the very end."""

    bodies: list[str]
    endings: list[str]

    @classmethod
    def split(cls, text: str) -> "TextLines":
        bodies, endings, position = [], [], 0
        for match in _LINE_END.finditer(text):
            bodies.append(text[position : match.start()])
            endings.append(match.group())
            position = match.end()
        if position < len(text):
            bodies.append(text[position:])
            endings.append("")
        return cls(bodies, endings)

    def join(self) -> str:
        return "".join(body + ending for body, ending in zip(self.bodies, self.endings, strict=True))

    def usual_ending(self) -> str:
        """The ending most lines have; `\\n` where none has any."""
        counts = Counter(ending for ending in self.endings if ending)
        return counts.most_common(1)[0][0] if counts else "\n"


@dataclass(frozen=True, slots=True)
class Level:
    """A way to look at lines. `fold` makes equal what the level holds to be equal."""

    label: str
    """What is ignored, as the model is told it: `matched ignoring indentation`. Empty for exact."""
    fold: Callable[[str], str]
    reindents: bool


def _collapse(line: str) -> str:
    return " ".join(line.split())


def _plain(line: str) -> str:
    """Without typographic variants; a byte that is not UTF-8 becomes what the model was shown for it."""
    return unicodedata.normalize("NFC", clean_text(line).translate(_CONFUSABLES))


EXACT = Level("", str, False)
TRAILING = Level("trailing whitespace", str.rstrip, False)
INDENTATION = Level("indentation", str.strip, True)
SPACING = Level("whitespace", _collapse, True)
TYPOGRAPHY = Level("whitespace and typographic characters", lambda line: _collapse(_plain(line)), True)
LEVELS = (EXACT, TRAILING, INDENTATION, SPACING, TYPOGRAPHY)


@dataclass(frozen=True, slots=True)
class Match:
    """Lines `start` to `end` (exclusive, from 0) that match, and the rule for indenting new lines there."""

    start: int
    end: int
    level: Level
    indent: Reindent

    def reindent(self, line: str) -> str | None:
        """A new line with the text's indentation; None where the rule does not cover it."""
        if not line.strip():
            return line
        own = indentation_of(line)
        changed = self.indent(own)
        return None if changed is None else changed + line[len(own) :]


class LineIndex:
    """The lines of one text, indexed for finding blocks in them at every level."""

    def __init__(self, bodies: Sequence[str]) -> None:
        self.bodies = bodies
        self._folded: dict[Level, tuple[list[str], dict[str, list[int]]]] = {}

    def find(self, wanted: Sequence[str], start: int = 0, levels: Sequence[Level] = LEVELS) -> list[Match]:
        """Every match that begins at `start` or later, at the first level that has one.

        ToolFailed where a text repeats itself so much that looking at every place would take too long.
        """
        for level in levels:
            if level is not EXACT and not any(line.strip() for line in wanted):
                return []
            matches = list(self._find_at(level, wanted, start))
            if matches:
                return matches
        return []

    def nearest(self, wanted: Sequence[str]) -> tuple[int, int] | None:
        """The lines that most resemble a block, as (start, end); None where nothing does."""
        keys = [TYPOGRAPHY.fold(line[:500]) for line in wanted[:500]]
        total = sum(len(key) for key in keys)
        if not total or not self.bodies:
            return None
        _, places = self._fold(TYPOGRAPHY)
        votes: defaultdict[int, float] = defaultdict(float)
        for index, key in enumerate(keys):
            found = places.get(key, ()) if key else ()
            for place in found[:200]:
                votes[place - index] += len(key) + 1 / len(found)
        best = max(votes, key=lambda offset: (votes[offset], -offset), default=None)
        if best is None or votes[best] < total / 5:
            fuzzy = self._resembling(keys)
            best = fuzzy if fuzzy is not None else best
        if best is None:
            return None
        begin = min(max(best, 0), len(self.bodies) - 1)
        return begin, min(max(best + len(wanted), begin + 1), len(self.bodies))

    def _fold(self, level: Level) -> tuple[list[str], dict[str, list[int]]]:
        if level not in self._folded:
            folded = [level.fold(body) for body in self.bodies]
            places: defaultdict[str, list[int]] = defaultdict(list)
            for index, key in enumerate(folded):
                places[key].append(index)
            self._folded[level] = folded, dict(places)
        return self._folded[level]

    def _find_at(self, level: Level, wanted: Sequence[str], start: int) -> Iterator[Match]:
        folded, places = self._fold(level)
        keys = [level.fold(line) for line in wanted]
        # The rarest line of the block is looked up, so a block of common lines costs little.
        anchor = min(range(len(keys)), key=lambda index: len(places.get(keys[index], ())), default=None)
        if anchor is None:
            return
        found = places.get(keys[anchor], ())
        tried = 0
        if len(found) * len(keys) > _MOST_COMPARISONS:
            raise ToolFailed(_TOO_MANY)
        for place in found:
            begin, end = place - anchor, place - anchor + len(keys)
            if begin < start or folded[begin:end] != keys:
                continue
            tried += level.reindents
            if tried > _MOST_PLACES:
                raise ToolFailed(_TOO_MANY)
            indent = self._indent_rule(level, wanted, begin)
            if indent is not None:
                yield Match(begin, end, level, indent)

    def _indent_rule(self, level: Level, wanted: Sequence[str], begin: int) -> Reindent | None:
        if not level.reindents:
            return str
        clean = _plain if level is TYPOGRAPHY else str
        pairs = {
            (indentation_of(clean(line)), indentation_of(clean(self.bodies[begin + index])))
            for index, line in enumerate(wanted)
            if line.strip()
        }
        return indent_rule(pairs)

    def _resembling(self, keys: Sequence[str]) -> int | None:
        """Where the block would begin if its most telling line were the line most like it."""
        folded, _ = self._fold(TYPOGRAPHY)
        vocabulary = [set(_WORDS.findall(line[:300])) for line in folded[:_FUZZY_LINES]]
        best: tuple[float, int] = (0.6, -1)
        for key in nlargest(3, keys, key=len):
            words = set(_WORDS.findall(key[:300]))
            scored = (
                (len(words & other) / len(words | other), -index)
                for index, other in enumerate(vocabulary)
                if words | other
            )
            for _, negative in nlargest(20, scored):
                ratio = SequenceMatcher(None, key[:300], folded[-negative][:300], autojunk=False).ratio()
                if ratio > best[0]:
                    best = (ratio, -negative - keys.index(key))
        return best[1] if best[0] > 0.6 else None


def indentation_of(line: str) -> str:
    """The spaces and tabs a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_rule(pairs: Iterable[tuple[str, str]]) -> Reindent | None:
    """One rule that turns every first indentation into its second, or None where there is none.

    A constant prefix added or taken away; spaces for tabs or tabs for spaces at one width; the same
    character at another width. Unseen depths are trusted only where the evidence allows no other reading.
    """
    known = set(pairs)
    if all(wanted == own for wanted, own in known):
        return str
    added = {own[: len(own) - len(wanted)] if own.endswith(wanted) else None for wanted, own in known}
    if len(added) == 1 and (prefix := added.pop()) is not None:
        return lambda indent: prefix + indent
    removed = {wanted[: len(wanted) - len(own)] if wanted.endswith(own) else None for wanted, own in known}
    if len(removed) == 1 and (surplus := removed.pop()) is not None:
        return lambda indent: indent[len(surplus) :] if indent.startswith(surplus) else None
    return _width_rule(known)


def _width_rule(known: set[tuple[str, str]]) -> Reindent | None:
    wanted_chars = set("".join(wanted for wanted, _ in known))
    own_chars = set("".join(own for _, own in known))
    depths = sorted({(len(wanted), len(own)) for wanted, own in known})
    if len(wanted_chars) != 1 or len(own_chars) != 1 or len({wanted for wanted, _ in depths}) != len(depths):
        return None
    (wanted_char,), (own_char,) = wanted_chars, own_chars
    first, last = depths[0], depths[-1]
    if len(depths) == 1:
        if not first[0]:
            return None
        step, offset = Fraction(first[1], first[0]), Fraction(0)
    else:
        step = Fraction(last[1] - first[1], last[0] - first[0])
        offset = first[1] - step * first[0]
    if step <= 0 or any(wanted * step + offset != own for wanted, own in depths):
        return None
    if wanted_char == own_char:
        # A shift on top of a scale is more likely one line that lost its indentation.
        if offset:
            return None
        trusted = len(depths) >= 3
    else:
        per_tab = step if own_char == " " else 1 / step
        if per_tab.denominator != 1 or not 1 < per_tab <= (4 if offset else 8):
            return None
        trusted = True
    seen = dict(depths)

    def rule(indent: str) -> str | None:
        if set(indent) - {wanted_char}:
            return None
        if len(indent) in seen:
            return own_char * seen[len(indent)]
        width = len(indent) * step + offset
        return own_char * int(width) if trusted and width >= 0 and width.denominator == 1 else None

    return rule


def align(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int | None, int]]:
    """For each new line in order: (the old line that it is, or None, and its own index). Bounded work."""
    same = min(len(old), len(new))
    head = next((index for index in range(same) if old[index] != new[index]), same)
    tail = next(
        (index for index in range(same - head) if old[-1 - index] != new[-1 - index]),
        same - head,
    )
    yield from ((index, index) for index in range(head))
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    kept: dict[int, int] = {}
    if len(middle_old) * len(middle_new) <= 250_000:
        for block in SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_matching_blocks():
            kept |= {block.b + index: block.a + index for index in range(block.size)}
    for index in range(len(middle_new)):
        source = kept.get(index)
        yield (None if source is None else head + source), head + index
    yield from ((len(old) - tail + index, len(new) - tail + index) for index in range(tail))


def show_lines(bodies: Sequence[str], start: int, end: int) -> str:
    """Lines `start` to `end` (exclusive, from 0) with their numbers, cut to what is worth showing."""
    shown = [f"{index + 1}: {_fit(bodies[index])}" for index in range(start, min(end, start + _SHOWN_LINES))]
    if end - start > _SHOWN_LINES:
        shown.append(f"... ({end - start - _SHOWN_LINES} more lines)")
    return "\n".join(shown)


def show_difference(wanted: Sequence[str], bodies: Sequence[str], start: int, end: int) -> str:
    """What differs between a block and the lines it resembles: `-` is the block, `+` is the text."""
    region = bodies[start:end]
    same = min(len(wanted), len(region))
    head = next((index for index in range(same) if wanted[index] != region[index]), same)
    begin = max(head - 3, 0)
    mine, theirs = list(wanted[begin : begin + 60]), list(region[begin : begin + 60])
    out: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            out += [f"  {start + begin + index + 1}: {_fit(theirs[index])}" for index in range(c, d)]
        else:
            # Side by side, so that cutting a long difference leaves both sides of its beginning.
            for offset in range(max(b - a, d - c)):
                out += [f"- {_fit(mine[a + offset])}"] if a + offset < b else []
                line = c + offset
                out += [f"+ {start + begin + line + 1}: {_fit(theirs[line])}"] if line < d else []
    if len(out) > _SHOWN_LINES:
        out = [*out[:_SHOWN_LINES], "..."]
    return "\n".join(out)


def list_places(numbers: Sequence[int]) -> str:
    """Line numbers as text: `lines 3, 9 and 20`."""
    distinct = list(dict.fromkeys(numbers))
    shown = [str(number) for number in distinct[:_SHOWN_LINES]]
    if len(distinct) > _SHOWN_LINES:
        return f"lines {', '.join(shown)} and {len(distinct) - _SHOWN_LINES} more"
    return f"lines {', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else f"line {shown[0]}"


def _fit(line: str) -> str:
    line = clean_text(line)
    return line if len(line) <= _SHOWN_WIDTH else line[:_SHOWN_WIDTH] + "..."
