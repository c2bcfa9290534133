"""The `edit_file` tool: one text for another, in the one place that can be meant, or the reason why not."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

from pydantic import Field

from headgate.core import clean_text, show_path
from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.first_use import dataclass
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.edit_intent import (
    MOST_COUNTED,
    choose_sound,
    group_by_lines,
    indented_readings,
    inner_breaks,
    leaves_indentation_out,
    line_numbers,
    occurrences,
    outer_definition,
    rank_by_rank,
    readings_behind,
    without_numbers,
)
from headgate.tools.matching import (
    EXACT,
    LEVELS,
    TRAILING,
    Level,
    LineIndex,
    Match,
    TextLines,
    align,
    indentation_of,
    list_places,
    show_difference,
    show_lines,
)
from headgate.tools.syntax import describe_new_errors
from headgate.tree import FileChange

BOM = "\ufeff"


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
    old: str = Field(description="Text to replace, copied from the file; long enough to occur only once")
    new: str = Field(description="Replacement text")
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
        raise ToolFailed(f"{name} is a binary file: edit_file only edits text.")
    if args.replace_all and file.text.count(args.old) * len(args.new) > MOST_CHARS:
        raise ToolFailed(f"{name} would become too large. Replace fewer places or use less text.")
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
    count = len(TextLines.split(args.new).bodies)
    parts = [f"Created {name}: {count_lines(count)}.", describe_new_errors([change])]
    return Outcome("\n".join(part for part in parts if part), changes=(change,))


def encode(text: str) -> bytes:
    """The bytes of an edited text; bytes that were not UTF-8 come out as they went in."""
    return text.encode("utf-8", "surrogateescape")


def require_text(value: str, what: str) -> None:
    """ToolArgsInvalid for text that no file can hold as it is."""
    if clean_text(value) != value:
        raise ToolArgsInvalid(f"`{what}` contains half of a surrogate pair: write the character itself.")
    if "\0" in value:
        raise ToolArgsInvalid(f"`{what}` contains a NUL character: only text can be written.")


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
        raise ToolFailed(f"Nothing changed: {name} already has `new` there.")
    return replace(edited, text=mark + edited.text)


def _edit(text: str, old: str, new: str, replace_all: bool, name: str) -> Edited:
    plain_old, plain_new = _with_newlines(old), _with_newlines(new)
    if plain_old == plain_new:
        return _edit_endings(text, old, new, replace_all, name)
    place = _Place(TextLines.split(text), replace_all, name)
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
            f"`old` and `new` differ only in line endings, and {name} does not contain exactly `old`."
        )
    if count > 1 and not replace_all:
        raise ToolFailed(f"`old` occurs {count} times in {name}. Set replace_all to change them all.")
    first = text.count("\n", 0, text.find(old)) + 1
    last = first + old.count("\n")
    return Edited(text.replace(old, new), ((first, last),) * count, first, last)


class _Place:
    """One text and the ways to find in it what an edit means. `old` and `new` have `\\n` alone here."""

    def __init__(self, lines: TextLines, replace_all: bool, name: str) -> None:
        self.lines = lines
        self.index = LineIndex(lines.bodies)
        self.usual_ending = lines.usual_ending()
        self.replace_all = replace_all
        self.name = name

    def edit_exactly(self, old: str, new: str) -> Edited | None:
        """Replaces `old` as it stands, parts of lines included; all line endings count as equal."""
        pairs = zip(self.lines.bodies, self.lines.endings, strict=True)
        text = "".join(body + ("\n" if ending else "") for body, ending in pairs)
        spans = occurrences(text, old, overlapping=not self.replace_all)
        if not spans:
            return None
        starts = list(accumulate((len(body) + 1 for body in self.lines.bodies[:-1]), initial=0))
        numbers = [bisect_right(starts, start) for start in spans]
        if len(spans) > 1 and not self.replace_all:
            count = f"{len(spans)}" if len(spans) < MOST_COUNTED else f"at least {MOST_COUNTED}"
            raise ToolFailed(
                f"`old` occurs {count} times in {self.name}: {list_places(numbers)}. "
                "Add surrounding lines so that it occurs once, or set replace_all."
            )
        meant = [
            self._readings(old, new, number - 1, start - starts[number - 1])
            for number, start in zip(numbers, spans, strict=True)
        ]
        texts = [
            partial(self._replaced, text, len(old), starts, dict(zip(spans, chosen, strict=True)))
            for chosen in rank_by_rank(meant)
        ]
        best = choose_sound(self.name, text, texts)
        note = ""
        if any(reading[min(best, len(reading) - 1)] != new for reading in meant):
            note = "Note: the new lines after the first were indented to match the replaced line."
        elif old in new and (earlier := text.find(new)) >= 0:
            line = text.count("\n", 0, earlier) + 1
            note = f"Note: the new text was already at line {line}, so it may now be there twice."
        last = numbers[0] + inner_breaks(new) if new else numbers[0] - 1
        replaced = tuple((number, number + inner_breaks(old)) for number in numbers)
        return Edited(texts[best](), replaced, numbers[0], last, note=note)

    def _readings(self, old: str, new: str, line: int, column: int) -> list[str]:
        """What `new` may mean in a place: more than one text where its indentation is in question."""
        body = self.lines.bodies[line]
        indent = body[:column]
        if not indent or indent.strip(" \t") or not leaves_indentation_out(old, new):
            return [new]
        return indented_readings(new, indent, outer_definition(self.lines.bodies, line, self.name))

    def _replaced(self, text: str, length: int, starts: Sequence[int], news: Mapping[int, str]) -> str:
        """The text with so many characters at each of these places replaced."""
        result = TextLines(list(self.lines.bodies), list(self.lines.endings))
        for first, last, inside in reversed(group_by_lines(list(news), length, starts)):
            position, pieces = starts[first], []
            for start in inside:
                pieces += [text[position:start], news[start]]
                position = start + length
            end = starts[last + 1] if last + 1 < len(starts) else len(text)
            region = "".join([*pieces, text[position:end]])
            bodies = TextLines.split(region).bodies
            self._splice(result, slice(first, last + 1), bodies, terminated=region.endswith("\n"))
        return result.join()

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
        ways = [wished]
        if (
            how
            and matches[0].level.reindents
            and leaves_indentation_out("\n".join(wanted), "\n".join(wished))
        ):
            indent = indentation_of(self.lines.bodies[matches[0].start])
            ways = [text.split("\n") for text in readings_behind("\n".join(wished), indent)]
        texts = [partial(self._with_lines, matches, wanted, way) for way in ways]
        best = texts[choose_sound(self.name, self.lines.join(), texts)]
        first = matches[0].start + 1
        replaced = tuple((match.start + 1, match.end) for match in matches)
        return Edited(best(), replaced, first, first + len(wished) - 1, how)

    def _with_lines(self, matches: Sequence[Match], wanted: Sequence[str], wished: Sequence[str]) -> str:
        """The text with new lines in each of these places."""
        result = TextLines(list(self.lines.bodies), list(self.lines.endings))
        for match in reversed(matches):
            bodies = self._carry_over(match, wanted, wished)
            terminated = bool(self.lines.endings[match.end - 1])
            self._splice(result, slice(match.start, match.end), bodies, terminated=terminated)
        return result.join()

    def edit_numbered(self, old: str, new: str) -> Edited | None:
        """Tries again without line numbers, where the lines of `old` are numbered in sequence."""
        numbers = line_numbers(old)
        if not numbers or (len(numbers) == 1 and numbers[0] > len(self.lines.bodies)):
            return None
        for spaces in (1, 0):
            bare_old = without_numbers(old, spaces)
            bare_new = without_numbers(new, spaces) if line_numbers(new, in_sequence=False) else new
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
            parts.append(f"`new` is already at {places}: the edit may already be applied.")
        wanted = old.removesuffix("\n").split("\n")
        region = self.index.nearest(wanted)
        if region:
            shown = show_difference(wanted, bodies, *region)
            parts.append(f"The nearest lines (`-` is your `old`, `+` is the file):\n{shown}")
        elif not done:
            parts.append(f"Nothing in its {count_lines(len(bodies))} is similar. Read the file first.")
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
            raise ToolFailed(f"{found} They differ, so replace_all cannot be used: edit each one separately.")

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
                    f"line `{wished[index].strip()[:80]}` does not fit there. Copy the lines exactly:\n"
                    + show_lines(bodies, match.start, match.end)
                )
            if undecoded and source is None and "\ufffd" in line:
                raise ToolFailed(
                    f"{place} contain bytes that are not UTF-8 (shown as \ufffd); `new` would overwrite "
                    "them. Choose an `old` without them."
                )
            result.append(line)
        return result

    def _splice(self, result: TextLines, region: slice, bodies: list[str], *, terminated: bool) -> None:
        """Replaces lines; those that stay keep their ending, new ones get the text's usual one."""
        usual = self.usual_ending
        endings = result.endings[region]
        sources = [source for source, _ in align(result.bodies[region], bodies)]
        fresh = [(endings[source] if source is not None else "") or usual for source in sources]
        if fresh:
            fresh[-1] = (endings[-1] or usual) if terminated else ""
        result.bodies[region] = bodies
        result.endings[region] = fresh


def _summary(name: str, edited: Edited) -> str:
    how = f" (matched ignoring {edited.how})" if edited.how else ""
    if len(edited.replaced) > 1:
        places = list_places([first for first, _ in edited.replaced])
        return f"Edited {name}: replaced {len(edited.replaced)} occurrences, previously at {places}{how}."
    before = _range(*edited.replaced[0])
    if edited.last < edited.first:
        return f"Edited {name}: removed text at {before}{how}."
    after = _range(edited.first, edited.last)
    return f"Edited {name}: replaced {before}{'' if before == after else f', now {after}'}{how}."


def _range(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _excerpt(edited: Edited) -> str:
    """The edited place and two lines around it; the middle of a long one is left out."""
    bodies = TextLines.split(edited.text.removeprefix(BOM)).bodies
    start, end = max(edited.first - 3, 0), min(max(edited.last, edited.first - 1) + 2, len(bodies))
    if end - start <= 12:
        return show_lines(bodies, start, end)
    return f"{show_lines(bodies, start, start + 7)}\n...\n{show_lines(bodies, end - 4, end)}"
