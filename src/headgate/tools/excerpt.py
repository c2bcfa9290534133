"""A file as a model is shown it: a header, then its lines as they are, as many as fit.

Lines carry no numbers: they would cost tokens, and weak models copy them into their edits.
"""

from collections.abc import Sequence

from headgate.core.messages import clean_text
from headgate.core.pathtext import show_path
from headgate.errors import ToolFailed
from headgate.host.workspace import File

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


def size_of(file: File) -> int:
    """How much room a file would like: enough for all of it."""
    return _OVERHEAD if describe_odd(file) else len(file.data) + len(file.path) + _OVERHEAD


def share_out(wishes: Sequence[int], room: int) -> list[int]:
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
