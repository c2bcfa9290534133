"""The kind `suspects`: runs the project's check first and finds out where a failure may come from.

The stage completes if there are places to ask about, and is skipped otherwise.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from pydantic import TypeAdapter

from headgate.checks import COMBINED, Suspect, measure_coverage, rank_functions, score_lines, suspect_lines
from headgate.core import (
    AnswersTried,
    Body,
    Broken,
    Data,
    Decision,
    Message,
    Role,
    SuspectsFound,
    clean_text,
    path_words,
    shorten,
)
from headgate.errors import ToolError
from headgate.features.repair.answers import Partial
from headgate.first_use import dataclass, regex
from headgate.reading import (
    FailedTest,
    find_failures,
    find_functions,
    is_code,
    is_test,
    plain_lines,
    source_excerpt,
)
from headgate.run import Job, Kind, StageEnd, StageRun, Trials, run_verification
from headgate.tree import CopyImpossible

MOST_SECONDS = 120.0
"""Measuring which lines run takes no longer, and is not tried where the check alone takes that long."""
SAID_LINES, SAID_CHARS = 14, 1_500
TEST_LINES, TEST_CHARS = 40, 2_500
GIVEN_LINES, GIVEN_CHARS = 8, 300
_PLACE = regex(r'(?:File "|^|[\s(])([\w./-]+\.\w+)(?:", line |:)(\d{1,7})', re.MULTILINE)
_VALUES = regex(r"[^\W\d]\w* = ")
_NAME = regex(r"[^\W\d]\w+")
_SAID = regex(r"^(?:E  |>  )")
_MOST_FILES = 40
MOST_FILE_LINES = 300
"""A whole file is asked for only up to this length."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known before the first question."""

    test: str
    """The source of the first test that fails, where it was found."""
    said: str
    """What the runner said about it, in a few lines."""
    failing: tuple[str, ...]
    """The names of all tests that fail, where the runner's format is known."""
    suspects: tuple[Suspect, ...]
    """The most suspect place first; whole files where functions are not known."""
    cases: tuple[str, ...] = ()
    """All cases that fail, by pytest's names, also those that the check does not get to (`-x`)."""


_EVIDENCE = TypeAdapter(Evidence)


@dataclass
class RepairMemory:
    """What only this process knows about the answers of a task."""

    evidence: Evidence | None = None
    """What is known about the bug, once the first check has failed."""
    tried: set[str] = field(default_factory=set)
    """What stands for the code of every answer that was checked, in each of the places it was tried in."""
    partials: list[Partial] = field(default_factory=list)
    """Answers that fix a part, the latest last."""
    said: str = ""
    """The question that was asked last."""
    asked: dict[tuple[str, bool, str], str] = field(default_factory=dict)
    """What was asked so far: the prompt, the form and the place, and in which stage."""
    cut_off: Counter[str] = field(default_factory=Counter)
    """How many answers were cut off at their length limit, by the path of the attempt."""
    stale: Counter[str] = field(default_factory=Counter)
    """How many answers in a row were useless, by the path of the attempt."""
    unjudged: dict[str, Message] = field(default_factory=dict)
    """After a crash: answers that had not been tried yet, by the path of the attempt."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever asks the model holds it: a local server often answers one request at a time, and what waits
    there would run out of its time."""
    trying: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Whoever tries something in a copy of the tree holds it, so that the rest of the machine is left to the
    model; and whoever writes to the tree itself, until that is on record."""


def memory_of(job: Job) -> RepairMemory:
    """The task's one memory of answers."""
    return job.memory.of(RepairMemory)


def write_evidence(evidence: Evidence) -> str:
    """For the log: questions after a crash are those from before it."""
    return _EVIDENCE.dump_json(evidence).decode()


def read_evidence(text: str) -> Evidence:
    """The evidence that `write_evidence` wrote."""
    return _EVIDENCE.validate_json(text)


def places(ask: str, evidence: Evidence) -> tuple[Suspect, ...]:
    """What can be asked about, in a stage that asks so."""
    functions = [suspect for suspect in evidence.suspects if suspect.function]
    if ask in ("function", "missing"):
        return tuple(functions)
    if ask == "line":
        return tuple(suspect_lines(functions))
    return tuple(
        suspect for suspect in evidence.suspects if not suspect.function and suspect.last <= MOST_FILE_LINES
    )


def places_for(ask: str, found: SuspectsFound) -> tuple[str, ...]:
    """What a stage that asks so can ask about."""
    return {"file": found.files, "line": found.lines}.get(ask, found.functions)


async def gather(job: Job) -> Evidence:
    """Reads the log of the opening run, and runs the tests once more to see which lines they run.

    CopyImpossible where nothing can be tried out in a copy of the tree.
    """
    opening = job.state[AnswersTried].opening
    assert opening is not None
    assert job.place.verifier is not None
    output = await asyncio.to_thread(_read_log, job, opening.run_id)
    failures = find_failures(output, str(job.place.verifier.directory))
    trace = await asyncio.to_thread(_trace, job, output)
    took = sum(step.seconds for step in opening.steps)
    scores: Mapping[tuple[str, int], float] = {}
    cases: tuple[str, ...] = ()
    if failures and took < MOST_SECONDS:
        scores, cases = await _measure(job, failures)
    evidence = await asyncio.to_thread(_weigh, job, output, failures, trace, scores)
    return replace(evidence, cases=cases)


def _read_log(job: Job, run_id: str) -> str:
    """What the opening run printed."""
    assert job.place.verifier is not None
    return (job.place.verifier.runs / run_id / COMBINED).read_text("utf-8", "replace")


def _weigh(
    job: Job,
    output: str,
    failures: Sequence[FailedTest],
    trace: list[tuple[str, int]],
    scores: Mapping[tuple[str, int], float],
) -> Evidence:
    ran, in_task = dict.fromkeys(path for path, _ in scores), _named(job)
    known = (*ran, *(path for path, _ in reversed(trace)), *in_task)
    paths = [path for path in dict.fromkeys(known) if is_code(path) and not is_test(path)]
    writable = [path for path in paths if job.place.context.workspace.may_write(path)][:_MOST_FILES]
    sources = {path: job.place.context.workspace.read(path).text for path in writable}
    python = {path: text for path, text in sources.items() if path.endswith(".py")}
    words = _NAME.findall(job.request)
    suspects = rank_functions(python, scores, trace, frozenset([*in_task, *words]))
    whole = tuple(Suspect(path, last=text.count("\n") + 1) for path, text in sources.items())
    names = tuple(failure.name for failure in failures)
    test = _test_source(job, failures, trace)
    return Evidence(
        job.place.redact(test[:TEST_CHARS]),
        job.place.redact(_said(output, failures)[:SAID_CHARS]),
        names,
        (*suspects, *whole),
    )


async def _measure(
    job: Job, failures: Sequence[FailedTest]
) -> tuple[dict[tuple[str, int], float], tuple[str, ...]]:
    """How suspect each line is, and which cases fail; nothing where that cannot be measured.

    CopyImpossible if the check does not fail in a copy as it does in the tree.
    """
    trials = Trials(job)
    names = {failure.name for failure in failures}
    async with trials.verifier() as (tree, verifier):
        where = (tree, verifier.directory, verifier.environment, MOST_SECONDS, trials.root, verifier.sandbox)
        spectrum = await measure_coverage(verifier.steps, *where)
        there = {failure.name for failure in find_failures(spectrum.output, str(verifier.directory))}
    if there != names:
        again = await trials.verify([])  # coverage itself may have made the difference
        if {failure.name for failure in again.failures} != names:
            raise CopyImpossible("the check does not fail the same way in a copy of the tree")
    failed, passed = spectrum.split(tuple(names))
    scores = await asyncio.to_thread(score_lines, failed, passed) if failed else {}
    readable = {path: _readable(job, path) for path in {path for path, _ in scores} if not is_test(path)}
    cases = tuple(sorted(map(clean_text, spectrum.failed)))
    return {key: score for key, score in scores.items() if readable.get(key[0])}, cases


def _trace(job: Job, output: str) -> list[tuple[str, int]]:
    """Every `file:line` of the project's own that the output names, in order, by its path in the tree."""
    places = [(_own_path(job, path), int(line)) for path, line in _PLACE.findall(output)[:500]]
    return [(path, line) for path, line in places if path and not job.ignored.file(path)]


def _own_path(job: Job, named: str) -> str:
    """A file as the tree has it, named from where the check runs, or wholly; nothing if it is not there."""
    assert job.place.verifier is not None
    root = os.path.realpath(job.place.context.workspace.root)
    path = os.path.relpath(Path(os.path.realpath(job.place.verifier.directory)) / named, root)
    return path if not path.startswith("..") and _readable(job, path) else ""


def _readable(job: Job, path: str) -> bool:
    """Whether a file of this name is there, and both can be shown."""
    try:
        return clean_text(path) == path and not job.place.context.workspace.read(path).is_binary
    except ToolError:
        return False


def _named(job: Job) -> list[str]:
    """The files that the task's own words name."""
    workspace = job.place.context.workspace
    paths = [workspace.read(word).path for word in path_words(job.request) if _readable(job, word)]
    return [path for path in paths if not job.ignored.file(path)]


def _said(output: str, failures: Sequence[FailedTest]) -> str:
    """What the first failure says: the runner's marked lines, else its message, else the output's end."""
    lines = plain_lines(output)
    first = failures[0] if failures else None
    start = 0
    if first is not None:
        title = first.name.rpartition("::")[2].split("[", maxsplit=1)[0]
        start = next((at for at, line in enumerate(lines) if line.startswith("_") and title in line), 0)
    given = _given(lines[start + 1 :]) if start else []
    marked: list[str] = []
    for line in lines[start:]:
        if marked and line.startswith("____"):
            break
        if _SAID.match(line):
            marked.append(line[1:].strip())
    if marked:
        return "\n".join([*given, *marked][:SAID_LINES])
    if first is not None and first.message:
        return first.message
    return "\n".join([line for line in lines if line.strip()][-SAID_LINES:])


def _given(lines: Sequence[str]) -> list[str]:
    """What the failing case was given: pytest names the values of its parameters before its source."""
    found: list[str] = []
    for line in lines[:GIVEN_LINES]:
        if line.startswith((" ", ">", "E", "_")):
            break
        if _VALUES.match(line) and " at 0x" not in line:
            found.append(shorten(line, GIVEN_CHARS))
    return found


def _test_source(job: Job, failures: Sequence[FailedTest], trace: Sequence[tuple[str, int]]) -> str:
    """The source of the first failing test, by its name, in the file that the name or the trace gives."""
    if not failures:
        return ""
    file, _, rest = failures[0].name.partition("::")
    name = (rest or failures[0].name).replace("::", ".").split("[", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    for path in dict.fromkeys([_own_path(job, file), *(path for path, _ in trace)]):
        if not path.endswith(".py"):
            continue
        source = job.place.context.workspace.read(path).text
        for function in find_functions(source):
            if f".{name}".endswith(f".{function.name}") and function.last - function.first < TEST_LINES:
                return source_excerpt(source, function.first, function.last)
    return ""


MOST_TOLD = 20
_DRY = "a dry run runs no command"


class SuspectsSettings(Data):
    """The settings of a stage of the kind `suspects`."""

    asks: tuple[str, ...] = ()
    """What later stages ask for; see `ask` of the kind `answer`."""


def _tell(evidence: Evidence) -> SuspectsFound:
    functions, lines, files = (
        tuple(clean_text(suspect.place) for suspect in places(ask, evidence)[:MOST_TOLD])
        for ask in ("function", "line", "file")
    )
    return SuspectsFound(functions=functions, lines=lines, files=files)


class Suspects(Kind):
    """The kind `suspects`. What does not run because of how such a stage ended is no news."""

    name = "suspects"
    settings = SuspectsSettings
    roles = frozenset[Role]({"quiet", "skips_quietly"})

    async def run(self, run: StageRun) -> StageEnd:
        """Runs the check once, and looks for suspects if it fails. A dry run runs nothing."""
        job = run.job
        if job.place.verifier is None:
            return StageEnd(Decision("skip", "nothing_to_verify"))
        if job.state[AnswersTried].suspects is None:
            found, kept = SuspectsFound(unfit=_DRY if job.place.proposing else ""), None
            try:
                if job.state[AnswersTried].opening is None and not job.place.proposing:
                    finding = await run_verification(job, run.path, purpose="opening")
                    if isinstance(finding.verdict, Broken):
                        return StageEnd(Decision("infra", "check_broken", finding.verdict.reason))
                opening = job.state[AnswersTried].opening
                if opening is not None and not opening.passed:
                    evidence = memory_of(job).evidence = await gather(job)
                    found, kept = _tell(evidence), write_evidence(evidence)
            except CopyImpossible as error:
                found = SuspectsFound(unfit=job.place.redact(str(error)))
            run.record(found, kept)
            await job.log.commit()
        suspects = job.state[AnswersTried].suspects
        assert suspects is not None
        some = any(places_for(ask, suspects) for ask in run.stage.settings.get("asks", ()))
        return StageEnd(Decision("advance", "done") if some else Decision("skip", "no_suspects"))

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        if isinstance(body, SuspectsFound) and content:
            memory_of(run.job).evidence = read_evidence(content)
