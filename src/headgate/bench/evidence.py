"""What an exercise left to look at: its diff and what its tests printed, cut to a size that can be looked at.

It is kept in files beside the results, not in them: what tests print differs from run to run.
"""

import os
from pathlib import Path

from headgate.core import cut_text, plain
from headgate.first_use import dataclass
from headgate.regular_files import remove_own_folder

EVIDENCE = "details"
DIFF = "changes.diff"
_DIFF_CHARS = 20_000
_OUTPUT_CHARS = 8_000
_READ_BYTES = 64_000
"""Of each end of a log; a character may take four bytes, and colours take more."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The diff of an exercise, and the output of its tests in each try."""

    diff: str = ""
    outputs: tuple[str, ...] = ()


def make_evidence(diff: bytes, logs: tuple[Path, ...], place: str) -> Evidence:
    """What is kept of a diff and of the logs of the tries. `place` is the folder of the exercise."""
    text = diff.decode("utf-8", "replace")
    outputs = (plain(_read_ends(log)).replace(place, ".") for log in logs)
    return Evidence(
        cut_text(text, _DIFF_CHARS, "the diff"),
        tuple(cut_text(output, _OUTPUT_CHARS, "the output") for output in outputs),
    )


def keep_evidence(out: Path, name: str, evidence: Evidence) -> None:
    """Writes it for one exercise, instead of what an earlier run of that left."""
    folder = out.resolve() / EVIDENCE / name
    remove_own_folder(folder)
    files = {DIFF: evidence.diff}
    files |= {f"try-{number}.log": output for number, output in enumerate(evidence.outputs, 1)}
    for file, text in files.items():
        if text:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8", errors="replace", newline="")


def _read_ends(log: Path) -> str:
    """The beginning and the end of a log, which may be long."""
    try:
        with log.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= 2 * _READ_BYTES:
                return file.read().decode("utf-8", "replace")
            first = file.read(_READ_BYTES)
            file.seek(-_READ_BYTES, os.SEEK_END)
            return b"\n".join((first, file.read())).decode("utf-8", "replace")
    except OSError:
        return ""
