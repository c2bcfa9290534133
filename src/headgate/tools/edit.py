"""The `edit_file` tool: one text for another, in the one place that can be meant, or the reason why not."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from pydantic import Field

from headgate.core.messages import clean_text
from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.host.workspace import FileChange, show_path
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.matching import (
    EXACT,
    LEVELS,
    TRAILING,
    Level,
    LineIndex,
    Lines,
    Match,
    align,
    list_places,
    show_difference,
    show_lines,
)
from headgate.tools.syntax import describe_new_errors

BOM = "\ufeff"
_MOST_COUNTED = 1000
_NUMBERED = re.compile(r"^[ \t]*(\d{1,7})(?::|[ \t]?\||\t|→)")


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after an edit. Line numbers count from 1; `last` is below `first` where nothing is left."""

    text: str
    replaced: tuple[tuple[int, int], ...]
    """First and last line of each place, before the edit."""
    first: int
    last: int
    """The lines of the first place, after the edit."""
    how: str = ""
    """What the match looked past: `indentation`. Empty for an exact match."""
    note: str = ""


class EditFile(Args):
    """The arguments of `edit_file`."""

    path: str = Field(description="File to edit, relative to the repository")
    old: str = Field(description="Text to replace, copied from the file; enough lines to occur only once")
    new: str = Field(description="Text to put in its place")
    replace_all: bool = Field(default=False, description="Replace every occurrence")


MOST_CHARS = 20_000_000
"""What replacing every occurrence may put in: far more than any file of code has."""


@tool("write")
def edit_file(ctx: ToolContext, args: EditFile) -> Outcome:
    """Replace `old` with `new` in a file. An empty `old` creates the file."""
    if args.old == args.new:
        raise ToolArgsInvalid("`old` and `new` are the same: there is nothing to change.")
    if args.old == "":
        return _create(ctx, args)
    file = ctx.workspace.read(args.path)
    name = show_path(file.path)
    if file.is_binary:
        raise ToolFailed(f"{name} is a binary file: edit_file works on text.")
    if args.replace_all and file.text.count(args.old) * len(args.new) > MOST_CHARS:
        raise ToolFailed(f"{name} would become too large. Replace fewer places, or with less.")
    edited = edit_text(file.text, args.old, args.new, replace_all=args.replace_all, name=name)
    change = FileChange(file.path, file.data, encode(edited.text))
    parts = [_summary(name, edited), _excerpt(edited), edited.note, describe_new_errors([change])]
    return Outcome("\n".join(part for part in parts if part), changes=(change,))


def _create(ctx: ToolContext, args: EditFile) -> Outcome:
    require_text(args.new, "new")
    before = None
    path = ctx.workspace.locate(args.path)
    name = show_path(path)
    if ctx.workspace.exists(path):
        file = ctx.workspace.read(path)
        if file.data:
            raise ToolFailed(
                f"{name} exists and is not empty: `old` must say which text to replace. "
                "Use write_file to replace the whole file."
            )
        before = file.data
    change = FileChange(path, before, encode(args.new))
    count = len(Lines.split(args.new).bodies)
    parts = [f"Created {name}: {count_lines(count)}.", describe_new_errors([change])]
    return Outcome("\n".join(part for part in parts if part), changes=(change,))


def encode(text: str) -> bytes:
    """The bytes of an edited text; bytes that were not UTF-8 come out as they went in."""
    return text.encode("utf-8", "surrogateescape")


def require_text(value: str, what: str) -> None:
    """ToolArgsInvalid for text that no file can hold as it is."""
    if clean_text(value) != value:
        raise ToolArgsInvalid(f"`{what}` holds half of a surrogate pair: write the character itself.")
    if "\0" in value:
        raise ToolArgsInvalid(f"`{what}` holds a NUL character: only text can be written.")


def count_lines(count: int) -> str:
    """`1 line`, `2 lines`."""
    return f"{count} line{'' if count == 1 else 's'}"


def edit_text(text: str, old: str, new: str, *, replace_all: bool = False, name: str = "the file") -> Edited:
    """The text with `old` replaced by `new`; ToolFailed says why there is no one place for that."""
    require_text(new, "new")
    if old in (new, ""):
        raise ToolArgsInvalid("`old` must not be empty, and `new` must differ from it.")
    mark = BOM if text.startswith(BOM) else ""
    body = text.removeprefix(BOM)
    if mark:
        old, new = old.removeprefix(BOM) or old, new.removeprefix(BOM)
    edited = _edit(body, old, new, replace_all, name)
    if edited.text == body:
        raise ToolFailed(f"Nothing changed: {name} reads like `new` there already.")
    return replace(edited, text=mark + edited.text)


def _edit(text: str, old: str, new: str, replace_all: bool, name: str) -> Edited:
    plain_old, plain_new = _with_newlines(old), _with_newlines(new)
    if plain_old == plain_new:
        return _edit_endings(text, old, new, replace_all, name)
    place = _Place(Lines.split(text), replace_all, name)
    edited = (
        place.edit_exactly(plain_old, plain_new)
        or place.edit_lines(plain_old, plain_new, LEVELS)
        or place.edit_numbered(plain_old, plain_new)
    )
    if edited is None:
        raise ToolFailed(place.explain_no_match(plain_old, plain_new))
    return edited


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _edit_endings(text: str, old: str, new: str, replace_all: bool, name: str) -> Edited:
    """An edit that changes nothing but line endings is taken literally."""
    count = text.count(old)
    if count == 0:
        raise ToolFailed(
            f"`old` and `new` differ only in line endings, and `old` is not in {name} as it stands."
        )
    if count > 1 and not replace_all:
        raise ToolFailed(f"`old` occurs {count} times in {name}. Set replace_all to change every one.")
    first = text.count("\n", 0, text.find(old)) + 1
    last = first + old.count("\n")
    return Edited(text.replace(old, new), ((first, last),) * count, first, last)


class _Place:
    """One text and the ways to find in it what an edit means. `old` and `new` have `\\n` alone here."""

    def __init__(self, lines: Lines, replace_all: bool, name: str) -> None:
        self.lines = lines
        self.index = LineIndex(lines.bodies)
        self.usual_ending = lines.usual_ending()
        self.replace_all = replace_all
        self.name = name

    def edit_exactly(self, old: str, new: str) -> Edited | None:
        """Replaces `old` as it stands, parts of lines included; all line endings count as equal."""
        pairs = zip(self.lines.bodies, self.lines.endings, strict=True)
        text = "".join(body + ("\n" if ending else "") for body, ending in pairs)
        spans = _occurrences(text, old, overlapping=not self.replace_all)
        if not spans:
            return None
        starts = list(accumulate((len(body) + 1 for body in self.lines.bodies[:-1]), initial=0))
        numbers = [bisect_right(starts, start) for start in spans]
        if len(spans) > 1 and not self.replace_all:
            count = f"{len(spans)}" if len(spans) < _MOST_COUNTED else f"at least {_MOST_COUNTED}"
            raise ToolFailed(
                f"`old` occurs {count} times in {self.name}: {list_places(numbers)}. "
                "Add surrounding lines so that it occurs once, or set replace_all."
            )
        result = Lines(list(self.lines.bodies), list(self.lines.endings))
        for first, last, inside in reversed(_group_by_lines(spans, len(old), starts)):
            position, pieces = starts[first], []
            for start in inside:
                pieces += [text[position:start], new]
                position = start + len(old)
            end = starts[last + 1] if last + 1 < len(starts) else len(text)
            region = "".join([*pieces, text[position:end]])
            bodies = Lines.split(region).bodies
            self._splice(result, slice(first, last + 1), bodies, terminated=region.endswith("\n"))
        note = ""
        if old in new and (earlier := text.find(new)) >= 0:
            line = text.count("\n", 0, earlier) + 1
            note = f"Note: the new text was there before (line {line}), so it may now be there twice."
        last = numbers[0] + _inner_breaks(new) if new else numbers[0] - 1
        replaced = tuple((number, number + _inner_breaks(old)) for number in numbers)
        return Edited(result.join(), replaced, numbers[0], last, note=note)

    def edit_lines(self, old: str, new: str, levels: Sequence[Level]) -> Edited | None:
        """Replaces whole lines that match `old` at the first of the levels that finds any."""
        wanted, wished = old.split("\n"), new.split("\n")
        if old.endswith("\n"):
            wanted.pop()
            if wished[-1] == "":
                wished.pop()
        matches = self.index.find(wanted, levels=levels)
        if not matches:
            return None
        how = matches[0].level.label
        if len(matches) > 1:
            self._require_alike(matches, how)
        result = Lines(list(self.lines.bodies), list(self.lines.endings))
        for match in reversed(matches):
            bodies = self._carry_over(match, wanted, wished)
            terminated = bool(self.lines.endings[match.end - 1])
            self._splice(result, slice(match.start, match.end), bodies, terminated=terminated)
        first = matches[0].start + 1
        replaced = tuple((match.start + 1, match.end) for match in matches)
        return Edited(result.join(), replaced, first, first + len(wished) - 1, how)

    def edit_numbered(self, old: str, new: str) -> Edited | None:
        """Tries again without line numbers, where the lines of `old` are numbered in sequence."""
        numbers = _line_numbers(old)
        if not numbers or (len(numbers) == 1 and numbers[0] > len(self.lines.bodies)):
            return None
        for spaces in (1, 0):
            bare_old = _without_numbers(old, spaces)
            bare_new = _without_numbers(new, spaces) if _line_numbers(new, in_sequence=False) else new
            if not bare_old or bare_old == bare_new:
                continue
            # No looser level, and whole lines only: what belongs to the number is already a guess.
            edited = self.edit_lines(bare_old, bare_new, (EXACT, TRAILING))
            if edited:
                return replace(edited, how=" and ".join(filter(None, ["line numbers", edited.how])))
        return None

    def explain_no_match(self, old: str, new: str) -> str:
        """Why there is no place for the edit: what is nearest, or that it is done already."""
        bodies = self.lines.bodies
        parts = [f"`old` is not in {self.name}; nothing was changed."]
        done = (
            self.index.find(new.removesuffix("\n").split("\n"), levels=(EXACT, TRAILING))
            if new.strip()
            else []
        )
        if done:
            places = list_places([match.start + 1 for match in done])
            parts.append(f"`new` is already there, at {places}: the edit seems to be applied already.")
        wanted = old.removesuffix("\n").split("\n")
        region = self.index.nearest(wanted)
        if region:
            shown = show_difference(wanted, bodies, *region)
            parts.append(f"The nearest lines (`-` is your `old`, `+` is the file):\n{shown}")
        elif not done:
            parts.append(f"Nothing in its {count_lines(len(bodies))} resembles it. Read the file first.")
        return " ".join(parts)

    def _require_alike(self, matches: Sequence[Match], how: str) -> None:
        """ToolFailed unless all matches are to be replaced and are the same text."""
        places = list_places([match.start + 1 for match in matches])
        ignoring = f" ignoring {how}" if how else ""
        found = f"`old` matches {len(matches)} places in {self.name}{ignoring}: {places}."
        if not self.replace_all:
            raise ToolFailed(f"{found} Add surrounding lines so that it matches one, or set replace_all.")
        alike = {tuple(self.lines.bodies[match.start : match.end]) for match in matches}
        if len(alike) > 1 or any(one.end > other.start for one, other in pairwise(matches)):
            raise ToolFailed(
                f"{found} They are not alike, so replace_all cannot be used: edit each by itself."
            )

    def _carry_over(self, match: Match, wanted: Sequence[str], wished: Sequence[str]) -> list[str]:
        """The new lines: those that `old` had too stay as the file has them, others are indented to fit."""
        bodies = self.lines.bodies
        place = f"lines {match.start + 1}-{match.end} of {self.name}"
        undecoded = any(clean_text(body) != body for body in bodies[match.start : match.end])
        result = []
        for source, index in align(wanted, wished):
            line = bodies[match.start + source] if source is not None else match.reindent(wished[index])
            if line is None:
                raise ToolFailed(
                    f"`old` matches {place} ignoring {match.level.label}, but the indentation of the new "
                    f"line `{wished[index].strip()[:80]}` does not fit there. Copy the lines as they are:\n"
                    + show_lines(bodies, match.start, match.end)
                )
            if undecoded and source is None and "\ufffd" in line:
                raise ToolFailed(
                    f"{place} hold bytes that are not UTF-8, shown as \ufffd; `new` would overwrite them. "
                    "Choose an `old` that leaves them out."
                )
            result.append(line)
        return result

    def _splice(self, result: Lines, region: slice, bodies: list[str], *, terminated: bool) -> None:
        """Replaces lines; those that stay keep their ending, new ones get the text's usual one."""
        usual = self.usual_ending
        endings = result.endings[region]
        sources = [source for source, _ in align(result.bodies[region], bodies)]
        fresh = [(endings[source] if source is not None else "") or usual for source in sources]
        if fresh:
            fresh[-1] = (endings[-1] or usual) if terminated else ""
        result.bodies[region] = bodies
        result.endings[region] = fresh


def _occurrences(text: str, part: str, *, overlapping: bool) -> list[int]:
    """Where a part begins. Overlapping ones are only counted up to a limit: they are never replaced."""
    places: list[int] = []
    start = text.find(part)
    while start >= 0 and not (overlapping and len(places) >= _MOST_COUNTED):
        places.append(start)
        start = text.find(part, start + (1 if overlapping else len(part)))
    return places


def _group_by_lines(
    spans: Sequence[int], length: int, starts: Sequence[int]
) -> list[tuple[int, int, list[int]]]:
    """Occurrences gathered so that no two groups share a line: (first line, last line, occurrences)."""
    groups: list[tuple[int, int, list[int]]] = []
    for start in spans:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, start + length) - 1
        if groups and first <= groups[-1][1]:
            begin, _, inside = groups.pop()
            inside.append(start)
            groups.append((begin, last, inside))
        else:
            groups.append((first, last, [start]))
    return groups


def _inner_breaks(text: str) -> int:
    return text.removesuffix("\n").count("\n")


def _line_numbers(text: str, *, in_sequence: bool = True) -> list[int]:
    """The number at the beginning of each line; none at all where a line has none or they do not follow."""
    matches = [_NUMBERED.match(line) for line in text.removesuffix("\n").split("\n")]
    numbers = [int(match[1]) for match in matches if match]
    follow = all(after == before + 1 for before, after in pairwise(numbers))
    return numbers if len(numbers) == len(matches) and (follow or not in_sequence) else []


def _without_numbers(text: str, spaces: int) -> str:
    """The text less the line number on each line and at most so many spaces after it."""
    return "\n".join(
        re.sub(rf"^ {{0,{spaces}}}", "", _NUMBERED.sub("", line, 1)) for line in text.split("\n")
    )


def _summary(name: str, edited: Edited) -> str:
    how = f" (matched ignoring {edited.how})" if edited.how else ""
    if len(edited.replaced) > 1:
        places = list_places([first for first, _ in edited.replaced])
        return f"Edited {name}: replaced {len(edited.replaced)} occurrences, at what were {places}{how}."
    before = _range(*edited.replaced[0])
    if edited.last < edited.first:
        return f"Edited {name}: removed text at {before}{how}."
    after = _range(edited.first, edited.last)
    return f"Edited {name}: replaced {before}{'' if before == after else f', now {after}'}{how}."


def _range(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _excerpt(edited: Edited) -> str:
    """The edited place and two lines around it; the middle of a long one is left out."""
    bodies = Lines.split(edited.text.removeprefix(BOM)).bodies
    start, end = max(edited.first - 3, 0), min(max(edited.last, edited.first - 1) + 2, len(bodies))
    if end - start <= 12:
        return show_lines(bodies, start, end)
    return f"{show_lines(bodies, start, start + 7)}\n...\n{show_lines(bodies, end - 4, end)}"
