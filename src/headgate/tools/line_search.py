"""Searching many files for a pattern in bounded time: a process that can be killed does the matching."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from headgate.errors import ToolError, ToolFailed
from headgate.tools import line_matcher


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may cost and bring."""

    shown: int
    """Lines kept; all are counted."""
    width: int
    """Characters of a line."""
    seconds: float


@dataclass(slots=True)
class Found:
    """What a search brought."""

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
    limits: Limits,
) -> Found:
    """Matches the files that `choose` names, line by line; it is told if the pattern is taken literally."""
    command = [sys.executable, "-I", "-S", "-W", "ignore", str(line_matcher.__file__)]
    found = Found()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
    ) as process:
        timer = threading.Timer(limits.seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            found.error = _begin(process.stdin, process.stdout, pattern, limits)
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
                _add(found, path, json.loads(answer), limits)
            process.kill()  # done, or dead already; a feeder that waits is woken either way
            feeder.join()
        finally:
            timer.cancel()
            process.kill()
    found.unread.sort()
    return found


def _begin(sink: IO[bytes], source: IO[bytes], pattern: str, limits: Limits) -> str:
    job = {"pattern": pattern, "shown": limits.shown, "width": limits.width, "seconds": limits.seconds}
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


def _add(found: Found, path: str, answer: tuple[int, list[tuple[int, str]]], limits: Limits) -> None:
    count, lines = answer
    found.matches += count
    found.files += count > 0
    room = limits.shown - len(found.lines)
    found.lines += [(path, number, text) for number, text in lines[:room]]
