"""Searching file contents.

Python's regular expressions decide what matches; ripgrep, where there is one, only picks the files in which
it is worth looking, so the results are the same with and without it.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from headgate.core.messages import clean_text
from headgate.core.pathtext import show_path
from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.host.disk import DiskWorkspace
from headgate.host.workspace import Workspace
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.files import glob_rules
from headgate.tools.line_search import Found, Limits, search_lines
from headgate.tools.prefilter import literal_prefilter, prefilter

LIMITS = Limits(shown=200, width=300, seconds=20.0)
_ARGUMENT_BYTES = 200_000
_RIPGREP = (
    *("--no-config", "--files-with-matches", "--null", "--no-messages", "--color=never"),
    *("--text", "--encoding=none", "--no-ignore", "--hidden"),
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

    found = search_lines(args.pattern, lambda path: ctx.workspace.read(show_path(path)).data, choose, LIMITS)
    return Outcome(clean_text(_describe(args.pattern, found, len(paths), ctx.result_chars)))


def _paths(workspace: Workspace, args: Search) -> list[str]:
    """The files to search: the one named, or those below a directory less what the glob leaves out."""
    top = workspace.locate(args.path)
    if top and _is_file(workspace, top):
        return [top]
    paths = list(workspace.files(args.path))
    if not args.glob:
        return paths
    rules = glob_rules(args.glob, str(workspace.root))
    below = len(top) + 1 if top else 0
    return [path for path in paths if rules.covers(path) or (below and rules.covers(path[below:]))]


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
    for batch in _batches(paths):
        found = _ripgrep(ctx.ripgrep, ctx.workspace.root, wider, batch)
        if found is None:
            return paths
        kept |= found
    return [path for path in paths if path in kept]


def _ripgrep(program: str, root: Path, pattern: str, paths: Sequence[str]) -> set[str] | None:
    command = [program, *_RIPGREP, f"--regexp={pattern}", "--", *paths]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMITS.seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in (0, 1):
        return None
    return {name.decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name}


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


def _describe(pattern: str, found: Found, searched: int, limit: int) -> str:
    notes = []
    if found.error:
        notes.append(f"[searched as plain text: not a valid regular expression ({found.error})]")
    if found.unread:
        notes.append(f"[{len(found.unread):,} files were skipped: too large or unreadable]")
    if found.left:
        notes.append(
            f"[stopped after {LIMITS.seconds:g} s with {found.left:,} files not searched: use a simpler"
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
