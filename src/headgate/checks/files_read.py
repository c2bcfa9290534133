"""The check `files_read`: the stage looked at files before it went on."""

from headgate.checks.registry import Check, Facts
from headgate.core import CheckSpec, Fail, Pass, Verdict

READERS = ("read_file", "read_files")
A_READER = "a tool that reads"
_NOTHING_READ = "no file was read"


async def _judge(facts: Facts, argument: int) -> Verdict:
    read, wanted = len(facts.attempt.files_read), argument
    if read < wanted:
        wanted = min(wanted, await facts.count_readable(wanted))
    if read >= wanted:
        return Pass()
    files = "1 file" if wanted == 1 else f"{wanted} files"
    reason = f"read at least {files} first ({read} read so far)"
    return Fail("files_read", reason, "" if read else _NOTHING_READ)


async def _still_missing(facts: Facts, argument: int) -> str:
    return _NOTHING_READ if not facts.attempt.files_read and await facts.count_readable(1) else ""


FILES_READ = Check(
    CheckSpec(
        "files_read",
        "The stage read at least this many different files, if the repository has that many.",
        argument="count",
        needs=READERS,
        needs_words=A_READER,
        drawn="{} read",
        counted="file",
        clause="too few files were read",
        said_done="without reading enough files",
    ),
    _judge,
    still_missing=_still_missing,
)
