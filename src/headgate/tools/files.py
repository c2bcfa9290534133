"""Looking at files and writing whole ones: ls, read_file, read_files, find_files, write_file."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field, model_validator

from headgate.core import clean_text, show_path
from headgate.errors import ToolArgsInvalid, ToolError, ToolFailed
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.editing import require_text
from headgate.tools.syntax import describe_new_errors
from headgate.tree import DirectoryEntry, File, FileChange, Rules, expand_braces

# A file as a model is shown it: a header, then its lines as they are, as many as fit.


MAX_LINE = 4_000
_OVERHEAD = 200
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"RIFF", "RIFF media"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ", "xz archive"),
    (b"(\xb5/\xfd", "zstd archive"),
    (b"7z\xbc\xaf", "7z archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "macOS program"),
    (b"\xca\xfe\xba\xbe", "Java class"),
    (b"\x00asm", "WebAssembly module"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"wOF2", "font"),
    (b"wOFF", "font"),
    (b"\x00\x01\x00\x00", "font"),
    (b"OTTO", "font"),
    (b"ID3", "MP3 audio"),
    (b"OggS", "Ogg media"),
)


def excerpt(file: File, limit: int, start: int | None = None, end: int | None = None) -> str:
    """The lines from `start` to `end` (from 1, both included) under a header, in at most `limit` characters.

    A start below 1 means the first line, an end below 1 the last. ToolFailed if there is no such line.
    """
    shown = show_path(file.path)
    odd = describe_odd(file)
    if odd:
        return clean_text(f"{shown} {odd}.")[:limit]
    lines = lines_of(file)
    total = len(lines)
    first = max(1, start or 1)
    last = total if end is None or end < 1 else min(end, total)
    if first > total:
        raise ToolFailed(f"{shown} has {count(total)}; start_line {first} is past the end.")
    if end is not None and 1 <= end < first:
        raise ToolFailed(f"start_line {first} is after end_line {end}.")
    room = limit - len(shown) - 100
    body: list[str] = []
    for line in lines[first - 1 : last]:
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]} [... {len(line) - MAX_LINE:,} more characters in this line]"
        if len(line) + 1 > room:
            if not body and room > 100:
                body.append(f"{line[: room - 60]} [... cut]")
            break
        room -= len(line) + 1
        body.append(line)
    until = first + len(body) - 1
    header = f"{shown} ({f'lines {first}-{until}' if until > first else f'line {first}'} of {total})"
    footer = [] if until >= last else [f"[cut here; to continue, call read_file with start_line={until + 1}]"]
    return clean_text("\n".join([header, *body, *footer]))[:limit]


def excerpt_size(file: File, start: int | None = None, end: int | None = None) -> int:
    """How much room a file would like: enough for all of it, or for all of these lines."""
    if describe_odd(file):
        return _OVERHEAD
    if start is None:
        return len(file.data) + len(file.path) + _OVERHEAD
    lines = lines_of(file)[start - 1 : end]
    return sum(len(line) + 1 for line in lines) + len(file.path) + _OVERHEAD


def share_room(wishes: Sequence[int], room: int) -> list[int]:
    """Room for each: small wishes are met in full, and the large ones share alike what is left."""
    shares = [0] * len(wishes)
    left = max(0, room)
    by_size = sorted(range(len(wishes)), key=lambda index: wishes[index])
    for position, index in enumerate(by_size):
        shares[index] = min(wishes[index], left // (len(wishes) - position))
        left -= shares[index]
    return shares


def describe_odd(file: File) -> str:
    """What a file is that cannot be shown as lines; empty for text."""
    if not file.data:
        return "is empty"
    if file.data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"is UTF-16 text, not UTF-8 ({len(file.data):,} bytes); convert it with iconv to read it"
    if file.is_binary:
        kind = next((name for magic, name in _MAGIC if file.data.startswith(magic)), "")
        return f"is a binary file ({kind + ', ' if kind else ''}{len(file.data):,} bytes)"
    return ""


def lines_of(file: File) -> list[str]:
    """The lines without their endings; a byte order mark is not part of the first."""
    lines = file.text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines or [""]


def count_lines(data: bytes) -> str:
    """How long a file is: `1 line`, `12 lines`."""
    return count(data.count(b"\n") + (not data.endswith(b"\n") and bool(data)))


def count(lines: int) -> str:
    """A number of lines in words."""
    return "1 line" if lines == 1 else f"{lines:,} lines"


_BOM = b"\xef\xbb\xbf"
_MIN_SHARE = 300
_COUNTS = ("limit", "line_limit", "num_lines", "max_lines", "line_count")
_RANGES = ("view_range", "line_range", "range")


class Ls(Args):
    """Arguments of ls."""

    path: str = Field(default="", description="Directory; default: the root")


class ReadFile(Args):
    """Arguments of read_file.

    Lines count from 1, and 0 is taken for 1. Models that learnt another tool send a first line (`offset`) and
    a number of lines (`limit`), or a pair (`view_range`). The schema does not name these: every turn would
    cost more.
    """

    path: str
    start_line: int | None = None
    end_line: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _learnt_elsewhere(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = dict(data)
        for name in _RANGES:
            if isinstance(pair := given.get(name), list | tuple) and len(pair) == 2:
                given.pop(name)
                given = {"start_line": pair[0], "end_line": pair[1]} | given
        first = _whole(given.get("start_line") or 1)
        for name in _COUNTS:
            count = _whole(given.get(name))
            if name in given and first is not None and (count is not None or given[name] is None):
                given.pop(name)
                # An explicit end wins. A count below 1 is how some tools say "all of it".
                if count and count > 0 and given.get("end_line") is None:
                    given["end_line"] = max(first, 1) + count - 1
        return given


class ReadFiles(Args):
    """Arguments of read_files."""

    paths: list[str]


class FindFiles(Args):
    """Arguments of find_files."""

    glob: str = Field(description="For example *.py")


class WriteFile(Args):
    """Arguments of write_file."""

    path: str
    content: str = Field(description="The entire content")


@tool("read")
def ls(ctx: ToolContext, args: Ls) -> Outcome:
    """List a directory."""
    path = ctx.workspace.locate(args.path)
    entries = ctx.workspace.list(args.path)
    shown = show_path(path) + "/" if path else "./"
    if not entries:
        return Outcome(clean_text(f"{shown} is empty."))
    lines = [_entry_line(entry) for entry in entries]
    count = "1 entry" if len(lines) == 1 else f"{len(lines):,} entries"
    return Outcome(listing(f"{shown} ({count})", lines, ctx.result_chars))


@tool("read")
def read_file(ctx: ToolContext, args: ReadFile) -> Outcome:
    """Read a file or some of its lines."""
    file = ctx.workspace.read(args.path)
    text = excerpt(file, ctx.result_chars, args.start_line, args.end_line)
    return Outcome(text, read=(file.path,))


@tool("read")
def read_files(ctx: ToolContext, args: ReadFiles) -> Outcome:
    """Read several files at once."""
    if not args.paths:
        raise ToolArgsInvalid("read_files: `paths` is empty.")
    paths = args.paths[: max(1, ctx.result_chars // _MIN_SHARE)]
    rest = "" if len(paths) == len(args.paths) else f"\n\n[{len(args.paths) - len(paths)} more were not read]"
    found: list[File | str] = []
    for path in paths:
        try:
            found.append(ctx.workspace.read(path))
        except ToolError as error:
            found.append(clean_text(str(error))[:_MIN_SHARE])
    room = ctx.result_chars - len(rest) - 2 * len(found)
    shares = share_room([len(item) if isinstance(item, str) else excerpt_size(item) for item in found], room)
    texts = [
        item[:share] if isinstance(item, str) else excerpt(item, share)
        for item, share in zip(found, shares, strict=True)
    ]
    read = tuple(dict.fromkeys(item.path for item in found if isinstance(item, File)))
    if not read:
        raise ToolFailed("\n\n".join(texts))
    return Outcome("\n\n".join(texts) + rest, read=read)


@tool("read")
def find_files(ctx: ToolContext, args: FindFiles) -> Outcome:
    """Find files by name. * matches within a name, ** across directories. Skips ignored files."""
    rules = glob_rules(args.glob, str(ctx.workspace.root))
    paths = list(ctx.workspace.files())
    found = list(map(show_path, rules.covered(paths)))
    if not found:
        text = f"No file matches {args.glob} ({len(paths):,} files checked)."
        text += _elsewhere(args.glob, paths, ctx.result_chars - len(text))
        return Outcome(clean_text(text)[: ctx.result_chars])
    count = "1 file" if len(found) == 1 else f"{len(found):,} files"
    return Outcome(listing(f"{count} found", found, ctx.result_chars))


@tool("write")
def write_file(ctx: ToolContext, args: WriteFile) -> Outcome:
    """Create a file or replace its entire content."""
    if args.path.rstrip().endswith("/"):
        raise ToolFailed(f"{args.path} is a directory; give the path of a file.")
    path = ctx.workspace.locate(args.path)
    if not path:
        raise ToolFailed("The path is the repository root; give the path of a file.")
    before = ctx.workspace.read(args.path) if ctx.workspace.exists(args.path) else None
    require_text(args.content, "content")
    after = args.content.encode()
    notes = ""
    if before is not None:
        after = _keep_form(before, after)
        notes = _conversion_note(before)
    shown = clean_text(show_path(path))
    if before is not None and before.data == after:
        return Outcome(f"Nothing changed: {shown} already has this content.")
    change = FileChange(path, None if before is None else before.data, after)
    now = count_lines(after)
    if before is None:
        text = f"Created {shown} ({now})."
    else:
        text = f"Overwrote {shown} (was {count_lines(before.data)}, is {now}).{notes}"
    problems = describe_new_errors([change])
    return Outcome(f"{text}\n{problems}" if problems else text, changes=(change,))


def _whole(value: Any) -> int | None:
    """A whole number as models write one; None for anything else."""
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def glob_rules(glob: str, root: str) -> Rules:
    """A glob as models write it: braces, a leading `./` or the repository's own absolute path are fine."""
    text = glob.strip().removeprefix(root).removeprefix("./")
    if not text.strip("/"):
        raise ToolArgsInvalid("`glob` is empty; give a pattern such as *.py")
    lines = expand_braces(text)
    return Rules("\\" + line if line[:1] in ("!", "#") else line for line in lines)


def _elsewhere(glob: str, paths: list[str], limit: int) -> str:
    """What has such a name in other directories: a model that guesses the wrong one would guess it again."""
    directory, _, name = glob.strip().rpartition("/")
    if not directory or not name.strip("*"):
        return ""
    rules = glob_rules(name, "")
    found = list(map(show_path, rules.covered(paths)))
    return f" {listing('In other directories', found, limit - 1)}" if found else ""


def _entry_line(entry: DirectoryEntry) -> str:
    name = show_path(entry.name)
    match entry.kind:
        case "dir":
            return name + "/"
        case "file":
            return f"{name} ({entry.size:,} bytes)"
        case "symlink":
            return f"{name} (symbolic link)"
        case _:
            return f"{name} (special file)"


def listing(header: str, lines: list[str], limit: int) -> str:
    """As many lines as fit; the last says how many do not."""
    room = limit - len(header) - 60
    shown = 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown += 1
    text = "\n".join([header + ":", *lines[:shown]])
    if shown < len(lines):
        text += f"\n[... {len(lines) - shown:,} more; narrow it down]"
    return clean_text(text)[:limit]


def _keep_form(before: File, after: bytes) -> bytes:
    """The new content with the old one's line endings and byte order mark."""
    crlf = before.data.count(b"\r\n")
    if crlf and crlf == before.data.count(b"\n") and b"\r\n" not in after:
        after = after.replace(b"\n", b"\r\n")
    if before.data.startswith(_BOM) and not after.startswith(_BOM):
        after = _BOM + after
    return after


def _conversion_note(before: File) -> str:
    try:
        before.data.decode()
    except UnicodeDecodeError:
        return " It was not UTF-8 before; it is now."
    return ""
