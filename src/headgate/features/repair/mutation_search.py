"""The search for a small change that passes: which there are, in which order, and what came of each."""

import time
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import field
from itertools import combinations, count, islice

from pydantic import Field

from headgate.checks import Suspect
from headgate.core import (
    AnswersTried,
    Data,
    Pass,
    show_path,
)
from headgate.errors import ToolError
from headgate.features.repair.answers import Partial, code_identity, code_mark, count_leftovers, partners
from headgate.features.repair.mutations import Mutation, mutations
from headgate.features.repair.quick_trials import Outcome, QuickTrials
from headgate.features.repair.suspects import Evidence, memory_of, places
from headgate.first_use import dataclass
from headgate.run import Job, Trials
from headgate.tree import FileChange

AT_ONCE = 60
"""So many changes are tried with one start of pytest, where that works."""
AT_A_TIME = 6
"""So many changes of a line are tried before the first ones of the next line get their turn."""
MORE = 12
"""So many more changes are tried once one passes: what else passes shows what the tests leave open."""
PATIENCE = 3.0
"""The tests may take so many times as long as the check did before: what takes longer does not end."""
MOST_PAIRS = 200
"""So many pairs of changes are tried where no single one passes."""


class MutateSettings(Data):
    """The settings of a stage of the kind `mutate`."""

    trials: int = Field(300, ge=1)
    """How many changes to try."""
    suspects: int = Field(20, ge=1)
    """How many lines to change, the most suspect first."""
    slow: float = Field(3.0, ge=0)
    """Try nothing where the check takes longer, in seconds."""
    failing: int = Field(2, ge=1)
    """Try nothing where fewer tests fail: a wrong change often passes a single one by chance."""
    longest: float = Field(3.0, gt=0)
    """Give a trial up that takes longer, in seconds, unless the check is slow: a changed loop may not end."""
    doubts: int = Field(10, ge=1)
    """Give up after so many changes that fix one half of the tests and not the other: they say too little."""
    choices: int = Field(4, ge=1)
    """How many changes that pass are looked for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change to try: one mutation, or two that fix a part each."""

    suspects: tuple[Suspect, ...]
    mutations: tuple[Mutation, ...]
    changes: tuple[FileChange, ...]
    mark: str

    @property
    def rank(self) -> tuple[int, int, int]:
        """What is more plausible comes first, and what leaves no code behind that nothing reaches."""
        texts = ((each.before or b"", each.after or b"") for each in self.changes)
        left = sum(
            count_leftovers(after.decode("utf-8", "replace"))
            - count_leftovers(before.decode("utf-8", "replace"))
            for before, after in texts
        )
        return len(self.mutations), max(left, 0), max(each.rank for each in self.mutations)

    @property
    def place(self) -> str:
        """What people are told: `cart.py:2`, or two of these."""
        return " and ".join(dict.fromkeys(each.place for each in self.suspects))

    @property
    def words(self) -> str:
        return ", and ".join(each.words for each in self.mutations)


@dataclass
class Search:
    """What was tried so far, and what came of it."""

    job: Job
    settings: MutateSettings
    passed: list[Candidate] = field(default_factory=list)
    doubts: int = 0
    tried: int = 0
    most: int = field(init=False)
    trials: Trials = field(init=False)
    quick: QuickTrials | None = None
    """None before the first trial, and where it does not work."""
    partials: list[tuple[Candidate, Partial]] = field(default_factory=list)
    """Changes that fix a part: two tests or more."""
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        evidence = memory_of(self.job).evidence
        assert evidence is not None
        self.evidence, self.most = evidence, self.settings.trials
        self.trials = Trials(self.job, self.settings.longest, quiet=True)

    @property
    def is_over(self) -> bool:
        enough = len(self.passed) >= self.settings.choices or self.doubts >= self.settings.doubts
        return enough or self.tried >= self.most

    async def try_next(self, waiting: deque[Candidate]) -> None:
        """Tries one change, or several at once. The caller holds the lock `trying`."""
        if not self.tried:
            self.quick = await self._begin()
            if not self.quick and len(self.evidence.failing) < self.settings.failing:
                self.most = 0  # more tests fail than the check gets to, and nothing could be confirmed
                return
        batch: list[Candidate] = []
        while waiting and len(batch) < (AT_ONCE if self.quick else 1):
            if (candidate := waiting.popleft()).mark not in memory_of(self.job).tried:
                batch.append(candidate)
        outcomes = await self._screen(batch)
        waiting.extendleft(reversed(batch[len(outcomes) :]))
        for candidate, outcome in zip(batch, outcomes, strict=False):
            if not self.is_over:
                await self._judge(candidate, outcome)

    async def _screen(self, batch: list[Candidate]) -> list[Outcome]:
        """What a quick trial says to the first of these; where there is none, the first may pass."""
        if self.quick and batch:
            if outcomes := await self.quick.run([each.changes for each in batch]):
                return outcomes
            self.quick = None  # it worked before, and does not any more
        return [Outcome(passed=True)] if batch else []

    async def _judge(self, candidate: Candidate, outcome: Outcome) -> None:
        """Tries a change in the ordinary way if it may pass, and keeps in mind what was found."""
        self.tried += 1
        failing, is_known = outcome.failing, outcome.failing is not None
        if outcome.passed:
            result = await self.trials.verify(candidate.changes)
            if isinstance(result.verdict, Pass):
                self.passed.append(candidate)
                self.most = min(self.most, self.tried + MORE) if len(self.passed) == 1 else self.most
                return
            failing = frozenset(failure.name for failure in result.failures)
            is_known = not any(step.timed_out for step in result.steps)
        if not is_known:  # on a busy machine, that says nothing: an answer that says the same gets more time
            return
        if outcome.passed:
            memory_of(self.job).tried.add(candidate.mark)
        if failing:
            seen = self.quick.failing if self.quick and not outcome.passed else self.evidence.failing
            self.doubts += not failing & set(sorted(seen)[::2])  # one half would have let it through
            if failing < set(seen) and len(candidate.changes) == 1:
                self._keep_partial(candidate, failing, seen)

    def _keep_partial(self, candidate: Candidate, failing: frozenset[str], seen: Collection[str]) -> None:
        """What fixes a part may be what another small change lacks, or an answer, if both see all tests."""
        partial = Partial(candidate.changes[0], failing)
        if len(seen) - len(failing) > 1:
            self.partials.append((candidate, partial))
        if set(seen) == set(self.evidence.failing):
            memory_of(self.job).partials.append(partial)

    def pairs(self) -> Iterator[Candidate]:
        """Two changes that fix all tests between them, and at least two each: one proves little."""
        for (one, first), (other, second) in combinations(self.partials, 2):
            for changes in partners([first], second):
                mark = f"{one.mark} {other.mark}"
                yield Candidate(one.suspects + other.suspects, one.mutations + other.mutations, changes, mark)

    async def _begin(self) -> QuickTrials | None:
        """Quick trials of the step that failed, if they work here."""
        opening, verifier = self.job.state[AnswersTried].opening, self.job.place.verifier
        assert opening is not None
        assert verifier is not None
        took = {step.name: step.seconds for step in opening.steps if not step.passed}
        step = next((step for step in verifier.steps if step.name in took), verifier.steps[-1])
        longest = max(self.settings.longest, PATIENCE * took.get(step.name, 0.0))
        return await QuickTrials.begin(self.trials, step, longest)


def candidates(job: Job, settings: MutateSettings) -> Iterator[Candidate]:
    """Every change to every suspect line: the most suspect lines first, but none before all others."""
    evidence = memory_of(job).evidence
    assert evidence is not None
    suspects = places("line", evidence)[: settings.suspects]
    lines = dict(enumerate(_changes_of(job, suspect) for suspect in suspects))
    for level in count():
        for rank in [rank for rank in lines if rank <= level]:
            found = list(islice(lines[rank], AT_A_TIME))
            yield from found
            if len(found) < AT_A_TIME:
                del lines[rank]
        if not lines:
            return


def _changes_of(job: Job, suspect: Suspect) -> Iterator[Candidate]:
    """Every change to one line."""
    try:
        file = job.place.context.workspace.read(show_path(suspect.path))
    except ToolError:
        return  # it is gone
    for mutation in mutations(file.text.replace("\r\n", "\n"), suspect.line):
        source = with_line_ends(file.text, mutation.source)
        mark = code_mark(suspect.path, code_identity(source, is_python=True))
        change = FileChange(file.path, file.data, source.encode("utf-8", "surrogateescape"))
        yield Candidate((suspect,), (mutation,), (change,), mark)


def with_line_ends(before: str, after: str) -> str:
    """A changed text without carriage returns, with those that its lines had, and new ones likewise."""
    old, new = before.split("\n"), after.split("\n")
    plain, least = [line.removesuffix("\r") for line in old], min(len(old), len(new))
    same = next((at for at, (one, other) in enumerate(zip(plain, new, strict=False)) if one != other), least)
    shorter = least - same
    behind = zip(reversed(plain), reversed(new), strict=False)
    tail = min(shorter, next((at for at, (one, other) in enumerate(behind) if one != other), shorter))
    beside = old[max(min(same, len(old) - 2), 0)]  # what follows the last line end has none
    end = "\r" if beside.endswith("\r") else ""
    between = [line + end for line in new[same : len(new) - tail]]
    return "\n".join([*old[:same], *between, *old[len(old) - tail :]])


def take_some(source: Iterator[Candidate]) -> list[Candidate]:
    """The next changes: as many as are tried at once, or as are found in a second. In long files, each takes
    a while to find."""
    taken: list[Candidate] = []
    ends = time.monotonic() + 1.0
    while len(taken) < AT_ONCE and (not taken or time.monotonic() < ends):
        if (candidate := next(source, None)) is None:
            break
        taken.append(candidate)
    return taken
