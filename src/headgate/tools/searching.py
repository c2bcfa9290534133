"""Searching file contents.

Python's regular expressions decide what matches; ripgrep, where there is one, only picks the files in which
it is worth looking, so the results are the same with and without it.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO

from pydantic import Field

from headgate.core import clean_text, show_path
from headgate.errors import ToolArgsInvalid, ToolError, ToolFailed
from headgate.first_use import dataclass
from headgate.tools import line_matcher
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.files import glob_rules
from headgate.tools.ripgrep_pattern import literal_prefilter, prefilter
from headgate.tree import DiskWorkspace, Workspace

# Searching many files for a pattern in bounded time: a process that can be killed does the matching.


SHOWN = 200
"""Lines kept; all are counted."""
_WIDTH = 300
"""Characters of a line."""


@dataclass(slots=True)
class SearchHits:
    """What a search found."""

    lines: list[tuple[str, int, str]] = field(default_factory=list)
    """Path, line number and text of the first matches, in the order of the paths."""
    matches: int = 0
    files: int = 0
    """Files with a match."""
    unread: list[str] = field(default_factory=list)
    """Files that could not be read: too large, gone."""
    error: str = ""
    """Why the pattern is no regular expression, so that it was taken literally."""
    left: int = 0
    """Files not searched because time was up."""


def search_lines(
    pattern: str,
    read: Callable[[str], bytes],
    choose: Callable[[bool], Sequence[str]],
    seconds: float,
) -> SearchHits:
    """Matches the files that `choose` names, line by line; it is told if the pattern is taken literally."""
    command = [sys.executable, "-I", "-S", "-W", "ignore", str(line_matcher.__file__)]
    found = SearchHits()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
    ) as process:
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            found.error = _begin(process.stdin, process.stdout, pattern, seconds)
            paths = choose(bool(found.error))
            feeder = threading.Thread(
                target=_feed, args=(process.stdin, paths, read, found.unread), daemon=True
            )
            feeder.start()
            for index, path in enumerate(paths):
                answer = process.stdout.readline()
                if not answer.endswith(b"\n"):
                    found.left = len(paths) - index
                    break
                _add(found, path, json.loads(answer))
            process.kill()  # done, or dead already; a feeder that waits is woken either way
            feeder.join()
        finally:
            timer.cancel()
            process.kill()
    found.unread.sort()
    return found


def _begin(sink: IO[bytes], source: IO[bytes], pattern: str, seconds: float) -> str:
    job = {"pattern": pattern, "shown": SHOWN, "width": _WIDTH, "seconds": seconds}
    try:
        sink.write(json.dumps(job).encode() + b"\n")
        sink.flush()
        answer = source.readline()
    except OSError as error:
        raise ToolFailed(f"The search could not be started: {error}.") from error
    if not answer.endswith(b"\n"):
        raise ToolFailed("The pattern takes too long to compile; use a simpler one.")
    error_text = json.loads(answer).get("error", "")
    assert isinstance(error_text, str)
    return error_text


def _feed(sink: IO[bytes], paths: Sequence[str], read: Callable[[str], bytes], unread: list[str]) -> None:
    # A process that was killed reads no more, which is how feeding ends early.
    with suppress(BrokenPipeError), sink:
        for path in paths:
            try:
                data = read(path)
            except ToolError:
                data = b""
                unread.append(path)
            sink.write(len(data).to_bytes(8, "big") + data)
            sink.flush()


def _add(found: SearchHits, path: str, answer: tuple[int, list[tuple[int, str]]]) -> None:
    count, lines = answer
    found.matches += count
    found.files += count > 0
    room = SHOWN - len(found.lines)
    found.lines += [(path, number, text) for number, text in lines[:room]]


_ARGUMENT_BYTES = 200_000
_RIPGREP = (
    *("--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never"),
    *("--text", "--encoding=none", "--no-ignore", "--hidden", "--max-depth=1"),
)


class Search(Args):
    """Arguments of search."""

    pattern: str = Field(description="Regular expression, matched line by line")
    path: str = Field(default="", description="File or directory; default: everything")
    glob: str = Field(default="", description="Only matching files, for example *.py")


@tool("read")
def search(ctx: ToolContext, args: Search) -> Outcome:
    """Search in files; returns `path:line: text`."""
    if not args.pattern:
        raise ToolArgsInvalid("search: `pattern` is empty.")
    paths = _paths(ctx.workspace, args)

    def choose(literally: bool) -> Sequence[str]:
        return _worth_searching(ctx, args.pattern, literally, paths)

    def read(path: str) -> bytes:
        return ctx.workspace.read(show_path(path)).data

    found = search_lines(args.pattern, read, choose, ctx.search_timeout)
    return Outcome(clean_text(_describe(args.pattern, found, len(paths), ctx)))


def _paths(workspace: Workspace, args: Search) -> list[str]:
    """The files to search: the one named, or those below a directory less what the glob leaves out."""
    top = workspace.locate(args.path)
    if top and _is_file(workspace, top):
        return [top]
    paths = list(workspace.files(args.path))
    if not args.glob:
        return paths
    rules = glob_rules(args.glob, str(workspace.root))
    chosen = set(rules.covered(paths))
    if top:
        chosen.update(f"{top}/{path}" for path in rules.covered(path[len(top) + 1 :] for path in paths))
    return [path for path in paths if path in chosen]


def _is_file(workspace: Workspace, path: str) -> bool:
    if not workspace.exists(show_path(path)):
        return False
    try:
        workspace.list(show_path(path))
    except ToolFailed:
        return True
    return False


def _worth_searching(ctx: ToolContext, pattern: str, literally: bool, paths: Sequence[str]) -> Sequence[str]:
    """The paths without those in which ripgrep finds nothing at all; all of them where it cannot tell.

    ripgrep sees the disk, so it is of no use for a workspace that is anything else.
    """
    if ctx.ripgrep is None or not paths or not isinstance(ctx.workspace, DiskWorkspace):
        return paths
    wider = literal_prefilter(pattern) if literally else prefilter(pattern)
    if wider is None:
        return paths
    kept: set[str] = set()
    for batch in _batches(ctx.workspace.joined(paths)):
        found = _ripgrep(ctx.ripgrep, ctx.workspace.root, wider, batch, ctx.search_timeout)
        if found is None:
            return paths
        kept |= found
    return [path for path in paths if path in kept]


def _ripgrep(program: str, root: Path, pattern: str, paths: Sequence[str], seconds: float) -> set[str] | None:
    command = [program, *_RIPGREP, f"--regexp={pattern}", "--", *(f"./{path}" for path in paths)]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in (0, 1):
        return None
    names = (os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return {name.removeprefix("./") for name in names}


def _batches(paths: Sequence[str]) -> list[list[str]]:
    """The paths in groups that fit on a command line."""
    batches: list[list[str]] = [[]]
    room = _ARGUMENT_BYTES
    for path in paths:
        room -= 4 * len(path) + 16
        if room < 0 and batches[-1]:
            batches.append([])
            room = _ARGUMENT_BYTES
        batches[-1].append(path)
    return batches


def _describe(pattern: str, found: SearchHits, searched: int, ctx: ToolContext) -> str:
    limit = ctx.result_chars
    notes = []
    if found.error:
        notes.append(f"[searched as plain text: not a valid regular expression ({found.error})]")
    if found.unread:
        notes.append(f"[{len(found.unread):,} files were skipped: too large or unreadable]")
    if found.left:
        notes.append(
            f"[stopped after {ctx.search_timeout:.3g} s with {found.left:,} files not searched: use a simpler"
            " pattern or name a path]"
        )
    if not found.matches:
        files = "1 file" if searched == 1 else f"{searched:,} files"
        hint = " Patterns match within one line." if "\\n" in pattern or "\n" in pattern else ""
        return "\n".join([f"No match in {files}.{hint}", *notes])[:limit]
    lines = [f"{show_path(path)}:{number}: {text}" for path, number, text in found.lines]
    room = limit - sum(len(note) + 1 for note in notes) - 100
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    if len(shown) < found.matches:
        files = "1 file" if found.files == 1 else f"{found.files:,} files"
        notes.append(f"[{len(shown):,} of {found.matches:,} matches in {files} shown; narrow it down]")
    return "\n".join([*shown, *notes])[:limit]
