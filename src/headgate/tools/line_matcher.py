"""Matches a regular expression line by line, in a process of its own that can be killed.

No check between lines bounds a single match that backtracks for hours, and a thread cannot be stopped. So
`search` runs this file as a script, feeds it files on standard input and reads a line of JSON for each. It
imports the standard library only, and as little of it as possible: it starts on every search.

In: a line of JSON `{pattern, shown, width, seconds}`, then per file its size in 8 bytes and its content.
Out: `{error}` or `{}` for the pattern, then per file `[count, [[line, text], ...]]`.
"""

import json
import re
import resource
import sys
from typing import BinaryIO, TextIO

_SPECIAL = frozenset(".^$*+?{}[]|()\\")
Matches = tuple[int, list[tuple[int, str]]]


def main(source: BinaryIO, sink: TextIO) -> None:
    """Serves one search."""
    job = json.loads(source.readline())
    # Whoever started this may be killed first; it must not spin on without them.
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    seconds = int(job["seconds"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard < 0 else min(seconds, hard), hard))
    error = ""
    try:
        regex = re.compile(job["pattern"])
    except (re.error, OverflowError, RecursionError) as problem:
        error = str(problem) or "it is too deeply nested"
        regex = re.compile(re.escape(job["pattern"]))
    _answer(sink, {"error": error} if error else {})
    plain = job["pattern"] if error or _SPECIAL.isdisjoint(job["pattern"]) else ""
    while header := source.read(8):
        data = source.read(int.from_bytes(header, "big"))
        _answer(sink, match_lines(regex, plain, data, job["shown"], job["width"]))


def match_lines(regex: "re.Pattern[str]", plain: str, data: bytes, shown: int, width: int) -> Matches:
    """How many lines match, and the first of them with their numbers. Binary files have none."""
    found: list[tuple[int, str]] = []
    if b"\0" in data[:65536]:
        return 0, found
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    if plain and plain not in text:
        return 0, found
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    count = 0
    for number, line in enumerate(lines, 1):
        match = regex.search(line)
        if match is not None:
            count += 1
            if count <= shown:
                found.append((number, window(line, match.start(), width)))
    return count, found


def window(line: str, start: int, width: int) -> str:
    """A line, or where it is too long the part of it around the match."""
    if len(line) <= width:
        return line
    begin = 0 if start < width * 2 // 3 else start - width // 3
    part = line[begin : begin + width]
    return ("..." if begin else "") + part + ("..." if begin + width < len(line) else "")


def _answer(sink: TextIO, value: object) -> None:
    sink.write(json.dumps(value) + "\n")
    sink.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
