"""Results: a line of JSON for each exercise, appended when it has ended, and put in order in the end.

Whatever depends on time is under `timing`; the same replies give the same bytes elsewhere.
"""

import os
from pathlib import Path

import orjson
from pydantic import ValidationError

from headgate.core import Data, TaskState
from headgate.errors import ConfigError

RESULTS = "results.jsonl"


class TryResult(Data):
    """One try."""

    reason: str | None
    """Why it failed; null if it passed."""
    failing: int = 0
    """How many tests failed, where the runner's format is known."""
    final_turns: tuple[str, ...] = ()
    """Why the model had to conclude, by slug."""


class Tokens(Data):
    """Tokens of all requests of an exercise."""

    sent: int = 0
    cached: int = 0
    """Of those sent, the ones that the server had in its cache."""
    generated: int = 0


class Timing(Data):
    """All that depends on time."""

    started: str
    """When the exercise began, in UTC."""
    seconds: float
    """How long it took, with everything."""
    test_seconds: tuple[float, ...] = ()
    """How long the tests took in each try."""


class ExerciseResult(Data):
    """How one exercise went."""

    name: str
    language: str
    passed: int | None
    """The number of the try that passed; null if none did."""
    tries: tuple[TryResult, ...] = ()
    problem: str = ""
    """Why the environment did not let it be judged; it says nothing about the model then."""
    state: TaskState | None = None
    """How the task ended."""
    reason: str = ""
    """Why, by slug."""
    final_turns: tuple[str, ...] = ()
    """Why the model had to conclude, each time."""
    requests: int = 0
    tokens: Tokens = Tokens()
    cost: float = 0.0
    timing: Timing

    @property
    def judged(self) -> bool:
        """Whether it says something about the model."""
        return not self.problem


def encode_result(result: ExerciseResult) -> bytes:
    return orjson.dumps(result.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE)


def read_results(path: Path) -> list[ExerciseResult]:
    """The results in a file, or in the folder that has one, by name; of two for an exercise the last one.

    ConfigError if there is no such file, or if a line is no result. A last line without an end is left out:
    the process was killed while it wrote.
    """
    file = path / RESULTS if path.is_dir() else path
    whole = _read(file)
    return _parse(whole[: whole.rfind(b"\n") + 1], file)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _parse(whole: bytes, file: Path) -> list[ExerciseResult]:
    """The results in whole lines."""
    found: dict[str, ExerciseResult] = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            result = ExerciseResult.model_validate_json(line)
        except ValidationError:
            raise ConfigError(
                f"{file}, line {number} is not a result of headgate bench: remove it."
            ) from None
        found[result.name] = result
    return [found[name] for name in sorted(found)]


class ResultFile:
    """The file that a run adds to. Only one process may have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results: dict[str, ExerciseResult] = {}

    @property
    def results(self) -> list[ExerciseResult]:
        """What is known so far, by name."""
        return [self._results[name] for name in sorted(self._results)]

    def load(self) -> None:
        """Reads what an earlier run left, and cuts off a last line that it did not get to write whole."""
        if not self.path.exists():
            return
        whole = _read(self.path)
        kept = whole[: whole.rfind(b"\n") + 1]
        self._results = {result.name: result for result in _parse(kept, self.path)}
        if len(kept) < len(whole):
            os.truncate(self.path, len(kept))

    def add(self, result: ExerciseResult) -> None:
        """Appends a result. It is on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(encode_result(result))
            file.flush()
            os.fsync(file.fileno())
        self._results[result.name] = result

    def sort(self) -> None:
        """Writes the whole file again, by name and with one line for each exercise: all of it or nothing."""
        write_whole(self.path, b"".join(map(encode_result, self.results)))


def write_whole(path: Path, data: bytes) -> None:
    """Replaces a file, so that a crash leaves the old one or the new one."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
