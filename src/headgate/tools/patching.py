"""The `apply_patch` tool: a patch over many files that applies as a whole or not at all."""

import re
from collections.abc import Sequence
from itertools import pairwise

from pydantic import Field

from headgate.core import clean_text, show_path
from headgate.errors import ToolFailed
from headgate.first_use import dataclass
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.editing import BOM, count_lines, encode, require_text
from headgate.tools.matching import (
    EXACT,
    TRAILING,
    LineIndex,
    Match,
    TextLines,
    list_places,
    show_difference,
    show_lines,
)
from headgate.tools.patch_format import AddFile, DeleteFile, Hunk, UpdateFile, parse_patch
from headgate.tools.syntax import describe_new_errors
from headgate.tree import FileChange, Workspace


class ApplyPatch(Args):
    """The arguments of `apply_patch`."""

    patch: str = Field(description="The patch, from `*** Begin Patch` to `*** End Patch`")


@tool("write")
def apply_patch(ctx: ToolContext, args: ApplyPatch) -> Outcome:
    """Change files with a patch. If any part fails, nothing is changed.

    *** Begin Patch
    *** Update File: PATH
    @@ LINE ABOVE
     UNCHANGED LINE
    -REMOVED LINE
    +ADDED LINE
    *** Add File: PATH
    +ADDED LINE
    *** Delete File: PATH
    *** End Patch

    Give up to 3 unchanged lines around a change, each with a space before it.
    `@@` tells identical places apart. `*** Move to: PATH` below Update File renames the file.
    """
    require_text(args.patch, "patch")
    plan = _Plan(ctx.workspace)
    report = []
    for operation in parse_patch(args.patch):
        match operation:
            case AddFile():
                report.append(plan.add(operation))
            case DeleteFile():
                report.append(plan.delete(operation))
            case UpdateFile():
                report.append(plan.update(operation))
    changes = plan.changes()
    if not changes:
        raise ToolFailed("The patch changes nothing: the files already have this content.")
    warning = describe_new_errors(changes)
    return Outcome("\n".join([*report, warning] if warning else report), changes=changes)


@dataclass
class _Planned:
    """A file in the middle of a patch."""

    before: bytes | None
    after: bytes | None
    mode: int | None
    is_written: bool = False
    """An earlier operation of this patch gave it its content."""


class _Plan:
    """The files that a patch touches, as they will be. Nothing is written here."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.files: dict[str, _Planned] = {}

    def add(self, operation: AddFile) -> str:
        path, file = self._file(operation.path)
        name = show_path(path)
        if file.is_written:
            raise ToolFailed(f"The patch changes {name} and then adds it again. Nothing was changed.")
        if operation.is_new and file.after is not None:
            raise ToolFailed(f"{name} already exists, but the patch creates it. Nothing was changed.")
        verb = "Added" if file.after is None else "Replaced all of"
        if file.before is None:
            file.mode = 0o755 if operation.mode & 0o100 else None
        file.after, file.is_written = encode(operation.text), True
        return f"{verb} {name}: {count_lines(operation.text.count(chr(10)))}."

    def delete(self, operation: DeleteFile) -> str:
        path, file = self._existing(operation.path)
        if file.is_written:
            raise ToolFailed(f"The patch changes {show_path(path)} and then deletes it. Nothing was changed.")
        file.after = None
        return f"Deleted {show_path(path)}."

    def update(self, operation: UpdateFile) -> str:
        path, file = self._existing(operation.path)
        name = show_path(path)
        assert file.after is not None
        report, content = "", file.after
        if operation.hunks:
            if b"\0" in content[:65536]:
                raise ToolFailed(f"{name} is a binary file: patches only work on text. Nothing was changed.")
            patched = patch_text(content.decode("utf-8", "surrogateescape"), operation.hunks, name)
            content, report = encode(patched.text), patched.report()
        moved = ""
        if operation.move_to is not None:
            target, goal = self._file(operation.move_to)
            if target != path:
                if goal.is_written:
                    raise ToolFailed(f"The patch changes {show_path(target)} and then moves {name} onto it.")
                moved = f" to {show_path(target)}" + (
                    ", replacing that file" if goal.after is not None else ""
                )
                if goal.before is None:
                    goal.mode = file.mode
                file.after, file.is_written = None, False
                file = goal
        file.after, file.is_written = content, True
        if moved:
            return f"Moved {name}{moved}" + (f", updated at {report}" if report else ".")
        return f"Updated {name} at {report}" if report else f"{name} was not moved."

    def changes(self) -> tuple[FileChange, ...]:
        return tuple(
            FileChange(path, file.before, file.after, file.mode)
            for path, file in self.files.items()
            if file.before != file.after
        )

    def _file(self, path: str) -> tuple[str, _Planned]:
        path = self.workspace.locate(path)
        if path not in self.files:
            if self.workspace.exists(path):
                file = self.workspace.read(path)
                self.files[path] = _Planned(file.data, file.data, file.mode)
            else:
                self.files[path] = _Planned(None, None, None)
        return path, self.files[path]

    def _existing(self, path: str) -> tuple[str, _Planned]:
        path, file = self._file(path)
        if file.after is None:
            if file.before is None:
                self.workspace.read(path)
            raise ToolFailed(f"An earlier part of the patch removes {show_path(path)}. Nothing was changed.")
        return path, file


@dataclass(frozen=True, slots=True)
class Patched:
    """A text after its hunks, and where each went: (first line, last line, how it matched), from 1."""

    text: str
    places: tuple[tuple[int, int, str], ...]

    def report(self) -> str:
        """The places in words, with the lines themselves where a match was not exact."""
        spots = [f"{first}-{last}" if last > first else f"{first}" for first, last, _ in self.places]
        out = f"line{'s' if len(spots) > 1 or '-' in spots[0] else ''} {', '.join(spots)}."
        bodies = TextLines.split(self.text.removeprefix(BOM)).bodies
        for number, (first, last, how) in enumerate(self.places, 1):
            if how:
                shown = show_lines(bodies, first - 1, min(last, first + 9))
                out += f"\nHunk {number} matched ignoring {how}:\n{shown}"
        return out


def patch_text(text: str, hunks: Sequence[Hunk], name: str = "the file") -> Patched:
    """The text with the hunks applied in order; ToolFailed says which has no one place, and why."""
    mark = BOM if text.startswith(BOM) else ""
    lines = TextLines.split(text.removeprefix(BOM))
    usual = lines.usual_ending()
    search = _HunkSearch(lines.bodies, name, len(hunks))
    result, places = TextLines([], []), []
    position = 0
    for hunk in hunks:
        match = search.place(hunk)
        result.bodies.extend(lines.bodies[position : match.start])
        result.endings.extend(lines.endings[position : match.start])
        position = match.start
        first = len(result.bodies) + 1
        for sign, line in hunk.lines:
            if sign == "+":
                result.bodies.append(search.indent(line, match))
                result.endings.append(usual)
            else:
                if sign == " ":
                    result.bodies.append(lines.bodies[position])
                    result.endings.append(lines.endings[position])
                position += 1
        places.append((first, max(len(result.bodies), first), match.level.label))
        if hunk.no_final_newline and hunk.lines[-1][0] == "+" and position == len(lines.bodies):
            result.endings[-1] = ""
    result.bodies.extend(lines.bodies[position:])
    result.endings.extend(lines.endings[position:])
    result.endings[:-1] = [ending or usual for ending in result.endings[:-1]]
    return Patched(mark + result.join(), tuple(places))


class _HunkSearch:
    """Finds the place of each hunk, one after the other."""

    def __init__(self, bodies: Sequence[str], name: str, count: int) -> None:
        self.index = LineIndex(bodies)
        self.bodies = bodies
        self.name = name
        self.count = count
        self.hunk = 0
        self.cursor = 0
        """Hunks come in the order of the file: the next one begins here or later."""
        self.drift = 0
        """By how much the last hunk's claimed line number was wrong."""

    def place(self, hunk: Hunk) -> Match:
        """Where the hunk goes; ToolFailed where that is nowhere, or cannot be told."""
        self.hunk += 1
        match = self._locate(hunk) if hunk.old else self._insertion(hunk)
        if hunk.number is not None and hunk.old:
            self.drift = match.start - (hunk.number - 1)
        self.cursor = match.end
        return match

    def indent(self, line: str, match: Match) -> str:
        """An added line, indented like the place where it goes."""
        fitted = match.reindent(line)
        if fitted is None:
            shown = show_lines(self.bodies, match.start, match.end)
            raise self._failed(
                f"it matches only ignoring {match.level.label}, and the indentation of the added line "
                f"`{line.strip()[:80]}` does not fit. The file has:\n{shown}"
            )
        if "\ufffd" in line and any(
            clean_text(body) != body for body in self.bodies[match.start : match.end]
        ):
            raise self._failed(
                "its lines contain bytes that are not UTF-8 (shown as \ufffd); leave those lines out."
            )
        return fitted

    def _failed(self, reason: str) -> ToolFailed:
        return ToolFailed(f"{self.name}, hunk {self.hunk} of {self.count}: {reason}\nNothing was changed.")

    def _insertion(self, hunk: Hunk) -> Match:
        """The place of a hunk that only adds lines: below its header, or at the end where it says so."""
        place = len(self.bodies)
        if hunk.headers and not hunk.at_end:
            scopes = self._scopes(hunk.headers)
            if len(scopes) > 1:
                self._refuse_ambiguous([start for start, _ in scopes], "its `@@` line")
            place = max(scopes[0][0] + 1, self.cursor)
        elif self.bodies and not hunk.at_end:
            raise self._failed(
                "it only adds lines and does not say where they go. Give the unchanged lines around "
                "them, or `@@ ` and the line above them, or `*** End of File` below them to append them."
            )
        return Match(place, place, EXACT, str)

    def _locate(self, hunk: Hunk) -> Match:
        if hunk.at_end:
            last = self.index.find(hunk.old, max(len(self.bodies) - len(hunk.old), self.cursor))
            if last:
                return last[0]
        removes = any(sign == "-" for sign, _ in hunk.lines)
        if not removes and not "".join(hunk.old).strip() and not hunk.headers and hunk.number is None:
            raise self._failed("its unchanged lines are all blank. Give lines with text around the change.")
        matches = self.index.find(hunk.old, self.cursor)
        if not matches:
            raise self._failed(self._explain_missing(hunk))
        if hunk.headers:
            matches = self._below_header(hunk.headers, matches)
        if len(matches) > 1 and hunk.number is not None:
            matches = self._near(hunk.number - 1 + self.drift, matches)
        if len(matches) > 1:
            self._refuse_ambiguous([match.start for match in matches], "its lines")
        return matches[0]

    def _below_header(self, headers: Sequence[str], matches: Sequence[Match]) -> list[Match]:
        """The first match below each place that the headers may mean."""
        scopes = self._scopes(headers)
        below = [
            next((match for match in matches if start <= match.start < end), None) for start, end in scopes
        ]
        found = [match for match in below if match is not None]
        if not found:
            raise self._failed(
                f"its lines are at {list_places([match.start + 1 for match in matches])}, which is not below "
                f"`@@ {headers[-1]}` ({list_places([start + 1 for start, _ in scopes])})."
            )
        return found

    def _scopes(self, headers: Sequence[str]) -> list[tuple[int, int]]:
        """Where the headers, each below the one before, may be: (line, where the next such place begins)."""
        scopes = [(0, len(self.bodies))]
        for header in headers:
            places = self._header_lines(header)
            inner: list[tuple[int, int]] = []
            for start, end in scopes:
                inside = [place for place in places if start <= place < end]
                inner += pairwise([*inside, end])
            if not inner:
                wanted = [header]
                region = self.index.nearest(wanted)
                shown = f" Nearest:\n{show_difference(wanted, self.bodies, *region)}" if region else ""
                raise self._failed(f"no line matches its `@@` line, `{header.strip()}`.{shown}")
            scopes = inner
        return [(start, end) for start, end in scopes if end > self.cursor] or scopes

    def _header_lines(self, header: str) -> list[int]:
        """Lines that are the header; or begin with it; or hold it."""
        whole = [match.start for match in self.index.find([header])]
        if whole:
            return whole
        words = re.compile(rf"(?<!\w){re.escape(header.strip())}(?!\w)")
        places = [(index, words.search(line.strip())) for index, line in enumerate(self.bodies)]
        begins = [index for index, found in places if found and found.start() == 0]
        return begins or [index for index, found in places if found]

    def _near(self, expected: int, matches: Sequence[Match]) -> list[Match]:
        """The match at the claimed line, or the one much nearer to it than any other; else all of them."""
        ranked = sorted(matches, key=lambda match: abs(match.start - expected))
        nearest, second = (abs(match.start - expected) for match in ranked[:2])
        return ranked[:1] if nearest * 2 < second else list(matches)

    def _refuse_ambiguous(self, places: Sequence[int], what: str) -> None:
        after = f" below hunk {self.hunk - 1}" if self.hunk > 1 else ""
        raise self._failed(
            f"{what} can be at {list_places([place + 1 for place in places])}{after}. "
            "Add unchanged lines around the change, or `@@ ` and a line above it that occurs only there."
        )

    def _explain_missing(self, hunk: Hunk) -> str:
        earlier = self.index.find(hunk.old)
        if earlier:
            places = list_places([match.start + 1 for match in earlier])
            return f"its lines are at {places}, not below hunk {self.hunk - 1}. Put hunks in file order."
        parts = ["its lines are not in the file."]
        is_change = any(sign == "+" for sign, _ in hunk.lines)
        done = self.index.find(hunk.new, levels=(EXACT, TRAILING)) if is_change else []
        if done:
            places = list_places([match.start + 1 for match in done])
            parts.append(f"The new lines are already at {places}: the hunk may already be applied.")
        region = self.index.nearest(hunk.old)
        if region:
            shown = show_difference(hunk.old, self.bodies, *region)
            parts.append(f"The nearest lines (`-` is the hunk, `+` is the file):\n{shown}")
        else:
            expected = "\n".join(f"- {line}" for line in hunk.old[:10])
            parts.append(f"Nothing in the file is similar:\n{expected}")
        return " ".join(parts)
