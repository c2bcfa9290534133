"""Small changes that are tried while the model is asked: one change is written, whoever finds it first."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from repair_runs import MUTATED, SOURCE, TEST, Case

from crashing_store import Crash, CrashingStore
from headgate.core import (
    Budget,
    Calls,
    Candidates,
    CandidateTried,
    Decision,
    Event,
    Flow,
    Message,
    Reply,
    ReplyReceived,
    Request,
    Stage,
    StageEnded,
    ToolFinished,
    ToolStarted,
    Usage,
    fold,
)
from headgate.log import Draft, Store

ANSWERED = SOURCE.replace("total > limit", "not total < limit")
BOTH_WRONG = """\
import unittest
from cart import is_free

class IsFree(unittest.TestCase):
    def test_one(self):
        self.assertEqual(is_free(5, 5), "yes")

    def test_two(self):
        self.assertEqual(is_free(7, 7), "yes")

    def test_below(self):
        self.assertEqual(is_free(4, 5), "no")
"""
IN_WORDS = 'def is_free(total, limit):\n    return "no" if total < limit else "yes"\n'
USELESS = "def is_free(total, limit):\n    return None\n"


def question(name: str, **fields: object) -> Stage:
    stage = Stage(
        id=name,
        prompt=f"Write `{{function}}`, {name}.",
        candidates=Candidates(ask="function", temperature=1.0),
        budget=Budget(turns=2, retries=0, exhausted="skip"),
    )
    return stage.model_copy(update=fields)


def flow(**settings: object) -> Flow:
    changes = Stage(
        id="changes",
        kind="mutate",
        prompt="Which? {changes}",
        settings={"trials": 20, "slow": 60.0, "longest": 60.0, **settings},
        budget=Budget(turns=1, retries=0, exhausted="skip"),
    )
    questions = (question("first"), question("second", needs=("first",), on_skip="run"))
    group = Stage(id="any", when="suspects", join="any", max_parallel=2, stages=(changes, *questions))
    return Flow(name="beside", begin="verify", stages=(group,), checks={"verify": True})


@dataclass
class Answering:
    """Waits, gives an answer to each question, and always chooses the first change."""

    answers: Sequence[str] = (ANSWERED,)
    wait: Callable[[], Awaitable[None]] | None = None
    """What it does before it answers its first question."""
    name: str = "answering"
    asked: list[str] = field(default_factory=list)
    """The ends of all requests."""
    given: int = 0
    """How many it has answered."""
    cancelled: int = 0
    at_once: Counter[str] = field(default_factory=Counter)

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.asked.append(request.messages[-1].content.rpartition("\n\n")[2])
        self.at_once["now"] += 1
        self.at_once["most"] = max(self.at_once["most"], self.at_once["now"])
        try:
            answer = await self._answer(self.asked[-1])
            self.given += 1
            return Reply(Message("assistant", answer), Usage(10, 1))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_once["now"] -= 1

    async def _answer(self, wanted: str) -> str:
        if wanted.startswith("Which?"):
            return "1"
        number = sum(text.startswith("Write") for text in self.asked) - 1
        if self.wait and not number:
            await self.wait()
        return f"```python\n{self.answers[number % len(self.answers)]}```"


@dataclass
class Ran:
    decision: Decision
    events: list[Event]
    text: str

    @property
    def kept(self) -> list[str]:
        """Who has written a change, by what is on record."""
        return [
            f"{event.path} {event.body.origin}"
            for event in self.events
            if isinstance(event.body, CandidateTried) and event.body.verdict == "passed"
        ]

    @property
    def writes(self) -> list[str]:
        return [event.path for event in self.events if isinstance(event.body, ToolStarted)]

    @property
    def ended(self) -> dict[str, str]:
        """Why each stage that did not complete has ended."""
        ends = [event.body for event in self.events if isinstance(event.body, StageEnded)]
        return {end.stage: end.reason for end in ends if end.ending != "completed"}


def run(top: Path, case: Case) -> Ran:
    async def in_time(store: Store) -> Decision:
        async with asyncio.timeout(120):
            return await case.start(store, store)

    with case.place(top) as store:
        decision = asyncio.run(in_time(store))
        return Ran(decision, store.events("t1"), (top / "repo" / "cart.py").read_text())


def make_case(model: Answering, test: str = TEST, **settings: object) -> Case:
    files = {"cart.py": SOURCE, "test_cart.py": test}
    return Case(flow(**settings), files, "python3 -m unittest", lambda store: model)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_a_change_wins_while_the_model_still_answers(tmp_path: Path) -> None:
    model = Answering(wait=for_ever)
    ran = run(tmp_path, make_case(model, choices=1))
    assert (ran.decision, ran.text) == (Decision("advance", "done"), MUTATED)
    assert ran.kept == ["any/changes mutation"]
    assert ran.writes == ["any/changes"]
    assert ran.ended == {"first": "join_any"}
    assert (model.cancelled, len(model.asked)) == (1, 1)


def test_an_answer_wins_while_changes_are_still_tried(tmp_path: Path) -> None:
    model = Answering([IN_WORDS])
    case = make_case(model, BOTH_WRONG)
    model.wait = lambda: until(lambda: len(case.verdicts) >= 2)  # the first check, and a change
    ran = run(tmp_path, case)
    assert (ran.decision, ran.text) == (Decision("advance", "done"), IN_WORDS)
    assert ran.kept == ["any/first model"]
    assert ran.writes == ["any/first"]
    assert ran.ended == {"changes": "join_any"}
    assert len(case.verdicts) < 10


def assert_one_is_written(ran: Ran) -> None:
    assert ran.decision == Decision("advance", "done")
    assert len(ran.kept) == len(ran.writes) == 1
    assert ran.text == (MUTATED if ran.kept == ["any/changes mutation"] else ANSWERED)
    assert set(ran.ended.values()) <= {"join_any", "outrun"}
    finished = [event.body for event in ran.events if isinstance(event.body, ToolFinished)]
    assert [body.ok for body in finished] == [True]


def test_both_have_passed_before_either_is_written(tmp_path: Path) -> None:
    """The change has passed, and nobody has heard of it yet, when an answer comes that passes as well."""
    model = Answering()
    case = make_case(model, choices=1)
    model.wait = lambda: until(lambda: any(case.verdicts))

    async def after_run() -> None:
        if any(case.verdicts):
            await until(lambda: model.given > 0)

    ran = run(tmp_path, replace(case, after_run=after_run))
    assert_one_is_written(ran)


def test_the_choice_waits_for_the_question_under_way(tmp_path: Path) -> None:
    """Two changes have passed, and nothing more is looked for; the first answer is of no use."""
    model = Answering([USELESS])
    case = make_case(model, choices=2)
    model.wait = lambda: until(lambda: sum(case.verdicts) == 2)
    ran = run(tmp_path, case)
    assert (ran.decision, ran.text) == (Decision("advance", "done"), MUTATED)
    assert ran.kept == ["any/changes mutation"]
    assert any(text.startswith("Which? 1. cart.py:2") for text in model.asked)
    assert model.at_once["most"] == 1


def test_a_change_whose_trial_took_too_long_may_still_be_the_answer(tmp_path: Path) -> None:
    """What passes the first test waits there until its time is up; then the model says the same."""
    gate = tmp_path / "gate"
    waits = f"while is_free(5, 5) and not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    slow = TEST.replace("import unittest\n", "import os\nimport time\nimport unittest\n")
    slow = slow.replace("test_one(self):\n", f"test_one(self):\n        {waits}")
    model = Answering([MUTATED])
    case = make_case(model, slow, trials=6, longest=0.2)

    async def open_gate() -> None:
        await until(lambda: len(case.verdicts) == 1 + 6)  # the check itself, and all changes
        gate.touch()

    model.wait = open_gate
    ran = run(tmp_path, case)
    assert (ran.decision, ran.text) == (Decision("advance", "done"), MUTATED)
    assert ran.kept == ["any/first model"]


def test_once_a_change_passes_only_a_few_more_are_tried(tmp_path: Path) -> None:
    case = make_case(Answering([USELESS]), trials=60, choices=60)
    ran = run(tmp_path, case)
    assert ran.decision.action == "advance"
    # The change that passes, twelve more of the other seventeen, an answer; and the check itself.
    assert len(case.verdicts) <= 1 + 12 + 1 + 3


class DyingAtTheWrite(CrashingStore):
    """Dies when it is on record what is about to be written, or when that is written and not on record."""

    async def _append(self, task: str, drafts: Sequence[Draft], *args: Any, **options: Any) -> list[Event]:
        bodies = [draft.body for draft in drafts]
        if self.seen or (self.before and any(isinstance(body, ToolFinished) for body in bodies)):
            self.seen = 1
            raise Crash
        events = await self.store.append(task, drafts, *args, **options)
        if not self.before and any(isinstance(body, ToolStarted) for body in bodies):
            self.seen = 1
            raise Crash
        return events


@pytest.mark.parametrize("is_made", [False, True], ids=["not made", "made"])
@pytest.mark.parametrize("owner", ["changes", "first"])
def test_a_write_that_was_interrupted_belongs_to_its_stage(tmp_path: Path, owner: str, is_made: bool) -> None:
    """The other stage would find something to write at once: after a write, every small change passes."""
    model = Answering([ANSWERED], wait=for_ever)
    case = make_case(model, choices=1)
    if owner == "first":
        model = Answering([IN_WORDS])
        case = make_case(model, BOTH_WRONG, choices=1)
    with case.place(tmp_path) as store:
        with pytest.raises(Crash):
            asyncio.run(case.start(store, DyingAtTheWrite(store, -1, before=is_made)))
        file = tmp_path / "repo" / "cart.py"
        was_written = file.read_text() != SOURCE
        model.wait = None
        decision, job = asyncio.run(case.take_up(store))
        ran = Ran(decision, store.events("t1"), file.read_text())
    assert was_written == is_made
    assert decision == Decision("advance", "done")
    (kept,) = ran.kept
    if is_made or owner == "first":
        assert kept == ("any/changes mutation" if owner == "changes" else "any/first model")
    assert ran.text in ((MUTATED, ANSWERED) if owner == "changes" else (IN_WORDS,))
    assert len(ran.writes) == 1 if is_made else 2
    assert not job.state[Calls].open


@dataclass
class Remembering(Answering):
    """The first answer is of no use, the second passes, whatever crashed in between."""

    store: Store | None = None

    async def _answer(self, wanted: str) -> str:
        if wanted.startswith("Which?"):
            return "1"
        assert self.store is not None
        events = self.store.events("t1")
        given = sum(
            isinstance(event.body, ReplyReceived) and not event.path.endswith("changes") for event in events
        )
        return f"```python\n{(USELESS, ANSWERED)[min(given, 1)]}```"


CRASHING = Case(
    flow(trials=4, choices=2),
    {"cart.py": SOURCE, "test_cart.py": TEST},
    "python3 -m unittest",
    lambda store: Remembering(store=store),
)


def test_a_crash_after_every_sort_of_commit(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Who finds a change first may differ from run to run; what is written is on record for that stage.

    What a crash just before a commit can leave besides is a write, which has a test of its own above.
    """
    with CRASHING.place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=False)
        asyncio.run(CRASHING.start(store, counter))
    points, most_open = counter.points(), 0
    for number in points[::2]:  # each of them measures which lines run, and tries changes
        with CRASHING.place(tmp_path / f"{number}") as store:
            with suppress(Crash):  # a run may have fewer commits than another
                asyncio.run(CRASHING.start(store, CrashingStore(store, number, before=False)))
            most_open = max(most_open, len(fold(store.events("t1")).tree.open_attempts()))
            decision, job = asyncio.run(CRASHING.take_up(store))
            ran = Ran(decision, store.events("t1"), (tmp_path / f"{number}" / "repo" / "cart.py").read_text())
            assert decision == Decision("advance", "done"), f"crashed at commit {number}"
            (kept,) = ran.kept
            by_change = kept == "any/changes mutation"
            assert by_change or kept in ("any/first model", "any/second model")
            assert ran.text == (MUTATED if by_change else ANSWERED)
            assert len(ran.writes) <= 2
            assert not job.state[Calls].open
            assert not job.state.tree.open_attempts()
    assert most_open == 2
    record_property("crash: commits of changes beside answers cut short", len(points[::2]))
