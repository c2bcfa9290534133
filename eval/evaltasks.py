"""The evaluation's tasks, what counts as solved, and where results are kept.

A task is solved if all of its own tests pass with the files that were left behind. The tests are laid over
them again before that is judged, so that changing a test gains nothing.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

TASKS = Path(__file__).parent / "tasks"
SUBSET = ("01", "02", "05", "07", "13", "18")
"""Of both files and levels: what kinds of runs are compared on before one of them gets all of the tasks."""
CHECK = "python -m pytest -q"
PROJECT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Task:
    """A small repository with a bug, and what a person would say about it."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def text(self) -> str:
        return (self.folder / "task.txt").read_text("utf-8").strip()

    @property
    def level(self) -> str:
        return (self.folder / "level").read_text("utf-8").strip()

    def sources(self) -> dict[str, str]:
        """The program's files, tests not among them."""
        repo = self.folder / "repo"
        files = [path for path in sorted(repo.rglob("*.py")) if not path.name.startswith("test_")]
        return {
            path.relative_to(repo).as_posix(): path.read_text("utf-8")
            for path in files
            if path.stat().st_size
        }


@dataclass
class Result:
    """What one run of one task came to. Times are wall time in seconds, tokens as the server counts them."""

    run: str
    task: str
    level: str
    solved: bool = False
    seconds: float = 0.0
    requests: int = 0
    prompt: int = 0
    """Tokens sent."""
    evaluated: int = 0
    """Tokens of these that the server had not in its cache, and really read."""
    completion: int = 0
    ending: str = ""
    flow: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    model: str = ""
    """Who answered."""
    commit: str = ""
    """What of this project was run."""
    limit: str = ""
    """What ends a run that finds nothing."""
    holds: bool | None = None
    """Whether what was solved also passes the tests that the run did not see; None where there were none."""


def project_commit(project: Path = PROJECT, ignored: Path | None = None) -> str:
    """The commit that is checked out, with a `+` if files other than `ignored` differ; empty without git."""
    git = ["git", "-C", str(project)]
    named = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    if named.returncode:
        return ""
    paths = ["."]
    if ignored is not None and ignored.resolve().is_relative_to(project.resolve()):
        paths.append(f":(exclude){ignored.resolve().relative_to(project.resolve()).as_posix()}")
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", *paths], capture_output=True, text=True, check=True
    )
    return f"{named.stdout.strip()}{'+' if changed.stdout else ''}"


def all_tasks(chosen: str = "all", where: Path = TASKS) -> list[Task]:
    """All of them, the `subset`, or those whose names begin with one of some numbers (`01,07`)."""
    tasks = [Task(folder) for folder in sorted(where.iterdir()) if (folder / "task.txt").exists()]
    if chosen == "all":
        return tasks
    numbers = SUBSET if chosen == "subset" else tuple(chosen.split(","))
    return [task for task in tasks if task.name.startswith(numbers)]


@contextmanager
def checked_out(task: Task) -> Iterator[Path]:
    """A git repository with the task's files, in a folder that is gone with the block."""
    with TemporaryDirectory(prefix="headgate-eval-") as temporary:
        repo = Path(temporary) / task.name.partition("_")[2]
        shutil.copytree(task.folder / "repo", repo)
        identity = ["-c", "user.name=eval", "-c", "user.email=eval@localhost"]
        for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "Begin"]):
            subprocess.run(["git", *command], cwd=repo, check=True)
        yield repo


def check_environment() -> dict[str, str]:
    """What the tests of a task find in their environment: the Python that runs this, and pytest alone.

    The plugins in this project's own environment take seconds at each start of pytest. A small repository has
    none of them, and Headgate starts its tests many times.
    """
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def run_check(repo: Path) -> tuple[bool, str]:
    """Whether the tests pass, and what they print."""
    environment = {**check_environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            command, cwd=repo, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return False, "The tests took longer than 60 s."
    return done.returncode == 0, done.stdout


def is_solved(task: Task, repo: Path) -> bool:
    """Whether the task's own tests pass with what is in this folder."""
    with TemporaryDirectory(prefix="headgate-eval-") as temporary:
        judged = Path(temporary) / "repo"
        shutil.copytree(repo, judged, ignore=shutil.ignore_patterns(".git", ".headgate", "__pycache__"))
        for stray in [*judged.rglob("test_*.py"), *judged.rglob("conftest.py")]:
            stray.unlink()
        for test in (task.folder / "repo").rglob("test_*.py"):
            shutil.copy(test, judged / test.relative_to(task.folder / "repo"))
        return run_check(judged)[0]


class Results:
    """Results as lines of JSON: a run that was interrupted goes on with the tasks that it lacks."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> list[Result]:
        """All results so far."""
        if not self.file.exists():
            return []
        return [Result(**json.loads(line)) for line in self.file.read_text("utf-8").splitlines()]

    def add(self, result: Result) -> None:
        """Appends one result."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(_line(result))

    def missing(self, run: str, tasks: list[Task], model: str) -> list[Task]:
        """The tasks that a run has no result for with this model."""
        done = {result.task for result in self.read() if (result.run, result.model) == (run, model)}
        return [task for task in tasks if task.name not in done]

    def forget(self, runs: Collection[str], model: str) -> None:
        """Drops what these runs came to with this model; everything else is kept."""
        kept = [result for result in self.read() if result.run not in runs or result.model != model]
        if self.file.exists():
            fresh = self.file.with_name(f"{self.file.name}.tmp")
            fresh.write_text("".join(map(_line, kept)), encoding="utf-8")
            fresh.replace(self.file)


def _line(result: Result) -> str:
    return json.dumps(asdict(result)) + "\n"
