"""A run over many exercises: several at once, each result on the disk as it comes, and resumable."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from headgate.bench.evidence import keep_evidence
from headgate.bench.exercise_run import ExerciseRun, Terms
from headgate.bench.exercises import Exercise
from headgate.bench.results import RESULTS, ExerciseResult, ResultFile
from headgate.bench.settings import RunSettings, describe_run, keep_settings, observe_facts
from headgate.core import Event
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.process import FileLock, uninterrupted
from headgate.regular_files import remove_own_folder

LOCK, WORK_NOTE, KEPT = ".lock", ".work-folder", "work"
_PREFIX = "headgate-bench-"


class Watcher:
    """Hears how a run goes. This one says nothing."""

    def begin(self, known: list[ExerciseResult], left: int) -> None:
        """Is told which results there are from before, and how many exercises are to be run."""

    def start(self, exercise: Exercise) -> None:
        """Is told that an exercise starts."""

    def hear(self, exercise: Exercise, event: Event) -> None:
        """Is told what happens in it."""

    def end(self, result: ExerciseResult) -> None:
        """Is told how it went. The result is on the disk."""


@dataclass
class BenchRun:
    """Runs exercises and keeps their results in a folder."""

    folder: Path
    """The folder that the exercises are in."""
    exercises: list[Exercise]
    terms: Terms
    out: Path
    """Where the results go."""
    parallel: int = 1
    keep: bool = False
    """Keep the folders in which the exercises were carried out."""
    watcher: Watcher = field(default_factory=Watcher)

    def settings(self) -> RunSettings:
        """What the results depend on. ConfigError if something of it cannot be used."""
        needs_model = any(exercise.layout == "polyglot" for exercise in self.exercises)
        return describe_run(self.folder, self.terms, needs_model=needs_model)

    async def run(self) -> list[ExerciseResult]:
        """Runs what has no result yet; returns the results of these exercises, by name.

        What the environment did not let be judged is run again. ConfigError if another process has the
        folder, or if its results are those of another run. A call that is cancelled ends what runs.
        """
        settings = self.settings()
        with self._owned():
            keep_settings(self.out, settings, observe_facts(self.folder, time.time()))
            file = ResultFile(self.out / RESULTS)
            file.load()
            done = {result.name for result in file.results if result.judged}
            names = {exercise.name for exercise in self.exercises}
            known = [result for result in file.results if result.name in names & done]
            left = [exercise for exercise in self.exercises if exercise.name not in done]
            self.watcher.begin(known, len(left))
            with self._work_folder() as place:
                waiting = iter(enumerate(left))
                async with asyncio.TaskGroup() as workers:
                    for _ in range(min(self.parallel, len(left))):
                        workers.create_task(self._work(waiting, place, file))
            file.sort()
            return [result for result in file.results if result.name in names]

    async def _work(self, waiting: Iterator[tuple[int, Exercise]], place: Path, file: ResultFile) -> None:
        for number, exercise in waiting:
            self.watcher.start(exercise)
            own = place / f"{number:04}"
            own.mkdir()

            def hear(event: Event, exercise: Exercise = exercise) -> None:
                self.watcher.hear(exercise, event)

            run = ExerciseRun(exercise, self.terms, own, self.folder.resolve(), hear)
            result = await run.run()
            keep_evidence(self.out, exercise.name, run.evidence)
            file.add(result)
            self.watcher.end(result)
            await uninterrupted(asyncio.to_thread(self._clear, own, exercise))

    def _clear(self, own: Path, exercise: Exercise) -> None:
        """Removes the folder of an exercise that has ended. What was made there is moved if it is kept."""
        made = own / exercise.source.name
        if self.keep and made.is_dir():
            kept = self.out.resolve() / KEPT / exercise.name
            remove_own_folder(kept)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(made, kept)
        remove_own_folder(own)

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """The folder for results, for this process alone."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"{self.out} is not a folder: name another --out.") from None
        lock = FileLock(self.out / LOCK)
        if not lock.try_acquire():
            holder = f" (process {lock.holder()})" if lock.holder() else ""
            raise ConfigError(f"Another headgate bench{holder} writes to {self.out}: use another --out.")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _work_folder(self) -> Iterator[Path]:
        """A folder away from other projects: test runners look for settings in the folders above.

        Its path is noted beside the results, so that the next run can remove what a killed one left.
        """
        note = self.out / WORK_NOTE
        _remove_left(note)
        place = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        note.write_text(str(place), encoding="utf-8", errors="surrogateescape")
        try:
            yield place
        finally:
            remove_own_folder(place)
            note.unlink(missing_ok=True)


def _remove_left(note: Path) -> None:
    """Removes the folder that a note names, if it is one of those that only this module makes."""
    if not note.is_file():
        return
    left = Path(note.read_text(encoding="utf-8", errors="surrogateescape").strip())
    if left.name.startswith(_PREFIX) and left.parent == Path(tempfile.gettempdir()).resolve():
        remove_own_folder(left)
