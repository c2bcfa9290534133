"""A process that is really killed, at every point of a run: the next one brings the task to the same end.

What may differ from a run that nobody disturbed is what `repeats` lists, and no more than one of it for each
time that the process was killed. Every other event is there once, in the same order, with the same content.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from crash_runs import KILLED, SUMS, Driver, End, Place, differences, end_of, files_in, repeats
from crash_scenarios import APART, FILES, RICH, SCENARIOS, WRITES

from headgate.core import TaskEnded

AT_ONCE = 2
PATIENCE = 180.0
"""Seconds after which a test gives up; nothing takes that long unless it hangs."""

BEGUN = {"proposed": "dry", "ended": "writes"}
"""Scenarios of which a part was done before."""

Cue = dict[str, Any]
Kill = Callable[[Place, Cue], None]


@dataclass
class Ground:
    """Where scenarios are run, again and again, by processes that can be killed."""

    path: Path
    drivers: "SimpleQueue[Driver]"
    undisturbed: dict[str, End] = field(default_factory=dict)
    counted: dict[str, dict[str, Any]] = field(default_factory=dict)
    tell: Callable[[str, object], None] = lambda name, value: None
    """Keeps a figure for the end of the test run."""

    def prepare(self, *names: str) -> None:
        """Runs scenarios once without a crash, to know how they end and where they can be killed.

        `proposed`: as `dry` left it, for runs that only apply it. `ended`: as `writes` left it, for an undo.
        """
        for name in names:
            if name not in self.counted:
                self._make(name)
                with self.place(name) as place:
                    self.counted[name] = place.finish(count=True)
                    self.undisturbed[name] = end_of(place)

    def _make(self, name: str) -> None:
        """Keeps a repository to begin with."""
        if name in SCENARIOS:
            SCENARIOS[name].make_repository(self.path / name)
            return
        with self.place(BEGUN[name]) as place:
            place.finish(propose=True)
            shutil.copytree(place.repo, self.path / name)

    @contextmanager
    def place(self, name: str) -> Iterator[Place]:
        """A repository of its own in which a scenario has not begun yet, has only proposed something, or has
        ended."""
        driver = self.drivers.get()
        path = Path(tempfile.mkdtemp(dir=self.path))
        try:
            place = Place(path, BEGUN.get(name, name), driver)
            shutil.copytree(self.path / name, place.repo)
            place.gate.mkdir()
            yield place
        finally:
            shutil.rmtree(path)
            self.drivers.put(driver)

    def kill_at(self, name: str, cues: Sequence[Cue], kill: Kill, **options: Any) -> str:
        """Kills a run at these cues, one after the other, and runs it to its end: what is wrong with that."""
        with self.place(name) as place:
            try:
                for cue in cues:
                    kill(place, cue)
                place.finish(**options)
                return self._judge(place, len(cues))
            except (AssertionError, FileNotFoundError) as error:
                return str(error)

    def _judge(self, place: Place, kills: int) -> str:
        kinds = Counter(repeats(place.events()).values())
        costs = kinds["verification"] + kinds["write"] + kinds["command"]
        assert costs <= kills, f"{kinds} for {kills} kills"
        assert kinds["resumed"] <= kills
        assert kinds["asked again"] == kinds["command begun"] == kinds["command"]
        temporaries = list(place.repo.rglob(".headgate-tmp-*"))
        assert not temporaries
        orphan = place.gate / "orphan"
        assert not (orphan.exists() and is_alive(int(orphan.read_text()))), "a command was left running"
        uncounted = SUMS if kinds["command"] else frozenset()
        return differences(self.undisturbed[place.scenario], end_of(place), uncounted)

    def check(
        self, kind: str, name: str, rounds: Sequence[Sequence[Cue]], kill: Kill, **options: Any
    ) -> None:
        """Kills at every one of these points; all of them have to lead to the same end."""
        assert rounds, "there is no point to kill at"
        with ThreadPoolExecutor(AT_ONCE) as pool:
            problems = list(pool.map(lambda cues: self.kill_at(name, cues, kill, **options), rounds))
        wrong = [f"{cues}: {problem}" for cues, problem in zip(rounds, problems, strict=True) if problem]
        assert not wrong, f"{len(wrong)} of {len(rounds)}\n" + "\n".join(wrong[:10])
        self.tell(f"crash: real kills {kind}", sum(map(len, rounds)))


@pytest.fixture
def ground(scene: Ground, record_property: Callable[[str, object], None]) -> Ground:
    scene.tell = record_property
    return scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    path = tmp_path_factory.mktemp("crash")
    drivers: SimpleQueue[Driver] = SimpleQueue()
    started = [Driver(path) for _ in range(AT_ONCE)]
    for driver in started:
        drivers.put(driver)
    ground = Ground(path, drivers)
    yield ground
    for driver in started:
        driver.close()


def dies(place: Place, cue: Cue) -> None:
    assert place.run(**cue) == KILLED


def dies_writing(place: Place, cue: Cue) -> None:
    """Dies in the middle of a write. Whatever is there then, every file is whole: the old one or the new."""
    dies(place, cue)
    whole = {name: {text.encode()} for name, text in FILES.items()}
    for name, text in WRITES.tree.items():
        whole.setdefault(name, set()).add(text.encode())
    for name, content in place.files().items():
        if name in whole:
            assert content in whole[name], f"{name} is {content!r}"
        else:
            assert name in ("agent.yaml", "flow.yaml") or ".headgate-tmp-" in name


def dies_at_gate(place: Place, cue: Cue) -> None:
    """Kills the process while a command of its own runs, which nobody else ends."""
    (place.gate / "wait").write_text(cue["gate"])
    process = place.driver.start(place.job())
    waiting = place.gate / "pid"
    deadline = time.monotonic() + PATIENCE
    while not waiting.exists():
        assert time.monotonic() < deadline, "the gate was not reached"
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    assert place.driver.wait() == KILLED
    assert is_alive(int(waiting.read_text()))
    waiting.rename(place.gate / "orphan")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_undisturbed_run_is_rich(ground: Ground) -> None:
    ground.prepare("rich", "retry")
    end = ground.undisturbed["rich"]
    assert end.tree == RICH.final_tree
    assert (end.row, end.runs, end.counts) == ("SUCCESS", 3, (2, 1, 2, 2))
    assert [report["verified"] for report in end.reports] == [True]
    kinds = {kind for kind, _, _ in end.story}
    assert kinds >= {"plan_written", "diagnosis_given", "fix_attempted", "replan_started", "view_compacted"}
    retried = ground.undisturbed["retry"]
    assert (retried.row, retried.stages) == (
        "SUCCESS",
        {"rounds/work": "failed", "rounds/work#2": "completed", "rounds/verify": "completed"},
    )


@pytest.mark.parametrize("name", ["rich", "retry", "scouted", "dry", "apart"])
def test_killed_after_every_sort_of_commit(ground: Ground, name: str) -> None:
    """A sort of commit: its last event, and the first one of the next, which is not made any more."""
    ground.prepare(name)
    # Events are heard of when they are committed, so only the last of each commit makes a difference. After
    # the last of all the task has ended: what is killed then is another test's matter.
    sorts: dict[tuple[str, str], int] = {}
    for (number, _, last), (_, following, _) in pairwise(ground.counted[name]["commits"]):
        sorts.setdefault((last, following), number)
    ground.check("after a commit", name, [[{"event": n}] for n in sorts.values()], dies)


def test_killed_in_the_middle_of_a_write(ground: Ground) -> None:
    ground.prepare("writes")
    writes = enumerate(ground.counted["writes"]["writes"], 1)
    points = [[{"write": (number, n)}] for number, count in writes for n in range(1, count + 1)]
    ground.check("in a write", "writes", points, dies_writing)


def test_killed_in_the_middle_of_an_apply(ground: Ground) -> None:
    ground.prepare("dry", "proposed")
    [count] = ground.counted["proposed"]["writes"]
    points = [[{"write": (1, n)}] for n in range(1, count + 1)]
    ground.check("while a proposal is applied", "proposed", points, dies_writing)


def test_another_process_applies_as_the_one_that_proposed(ground: Ground) -> None:
    ground.prepare("dry", "proposed")
    assert ground.undisturbed["proposed"] == ground.undisturbed["dry"]
    assert ground.counted["proposed"]["writes"] == ground.counted["dry"]["writes"][-1:]


def test_killed_in_the_middle_of_an_apply_and_then_cancelled(ground: Ground) -> None:
    ground.prepare("dry", "proposed")
    [count] = ground.counted["proposed"]["writes"]
    before = {name: text.encode() for name, text in FILES.items()}
    for point in (*range(1, count, 4), count):
        with ground.place("proposed") as place:
            dies_writing(place, {"write": (1, point)})
            place.finish(cancel=True)
            files = {name: data for name, data in place.files().items() if not name.endswith(".yaml")}
            after = {**before, **{name: text.encode() for name, text in WRITES.tree.items()}}
            assert files in (before, {name: after[name] for name in after if name not in WRITES.gone}), point
            assert place.row_state() == "CANCELLED"
            changed = place.events()[-1].body
            assert isinstance(changed, TaskEnded)
            assert bool(changed.files_changed) == (files != before)


def test_killed_in_the_middle_of_a_command(ground: Ground) -> None:
    ground.prepare("rich")
    gates = ["shell", "verify 1", "verify 2", "verify 3"]
    ground.check("in a command", "rich", [[{"gate": gate}] for gate in gates], dies_at_gate)


def test_killed_again_and_again(ground: Ground) -> None:
    ground.prepare("rich")
    chance = random.Random(3)
    events = ground.counted["rich"]["events"]
    pairs = [[{"event": chance.randrange(1, events)}, {"event": chance.randrange(1, 6)}] for _ in range(6)]
    # The third time comes after another reply: who gets nowhere three times in a row is given up.
    threes = [
        [
            {"event": chance.randrange(1, events - 40)},
            {"event": chance.randrange(1, 8)},
            {"event": chance.randrange(1, 8), "after_reply": True},
        ]
        for _ in range(6)
    ]
    ground.check("again and again", "rich", [*pairs, *threes], dies)


def test_a_task_that_gets_nowhere_three_times_in_a_row_ends_honestly(ground: Ground) -> None:
    ground.prepare("rich")
    with ground.place("rich") as place:
        for cue in ({"event": 40}, {"event": 1}, {"event": 1}):
            dies(place, cue)
        place.finish()
        last = place.events()[-1].body
        assert isinstance(last, TaskEnded)
        assert (place.row_state(), last.state, last.reason) == ("INFRA_ERROR", "INFRA_ERROR", "crash_loop")
        assert last.files_changed == ("calc.py", "copy.txt", "docs/deep/new.md", "n.txt", "old.txt")


def test_a_verification_that_is_run_again_counts_once(ground: Ground) -> None:
    ground.prepare("writes")
    with ground.place("writes") as place:
        dies_at_gate(place, {"gate": "verify 3"})
        place.finish()
        assert [report["attempts"] for report in end_of(place).reports] == [1]


@pytest.mark.parametrize("cue", ["event", "report 1", "report 2"])
def test_killed_before_the_report_is_written(ground: Ground, cue: str) -> None:
    """`event`: the last one, which says that the task has ended. The report is a line and a page."""
    ground.prepare("writes")
    name, _, number = cue.partition(" ")
    point = {name: int(number) if number else ground.counted["writes"]["events"]}
    ground.check("before the report", "writes", [[point]], dies)


def test_a_task_in_a_worktree_leaves_the_tree_around_it_alone(ground: Ground) -> None:
    ground.prepare("apart")
    with ground.place("apart") as place:
        dies(place, {"event": ground.counted["apart"]["commits"][2][0]})
        place.finish()
        assert files_in(place.repo) == APART.original_tree
        assert place.files() == APART.final_tree


def test_killed_anywhere_in_an_undo(ground: Ground) -> None:
    """The next process that works in the repository completes an undo that was begun."""
    before = WRITES.original_tree
    ground.prepare("writes", "ended")
    with ground.place("ended") as place:
        count = place.finish(undo=None)["undo"]
        assert place.files() == before
    assert count > 10

    def check(point: int) -> str:
        with ground.place("ended") as place:
            after = place.files()
            dies(place, {"undo": point})
            half = {name: data for name, data in place.files().items() if ".headgate-tmp-" not in name}
            torn = [name for name, data in half.items() if data not in (before.get(name), after.get(name))]
            place.finish()  # a process that only looks for work
            settled, undone = place.files(), place.is_undone()
            place.finish(undo=None)
            ends = [settled == (before if undone else after), place.files() == before, place.is_undone()]
            return f"{point}: {torn} {ends}" if torn or not all(ends) else ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = list(filter(None, pool.map(check, range(1, count + 1))))
    assert not problems
    ground.tell("crash: real kills in an undo", count)
