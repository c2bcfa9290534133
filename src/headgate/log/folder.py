"""`.headgate/` in a repository: what is kept there and under which names."""

import faulthandler
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from random import randbytes
from typing import IO, Any

from headgate.control_characters import escape_controls
from headgate.core import COMMANDS_FOLDER, OWN_FOLDER, State, TaskState
from headgate.errors import ConfigError, HeadgateError, StoreError
from headgate.log.file import sync_folder
from headgate.log.report import Report, render_markdown
from headgate.process import FileLock
from headgate.regular_files import (
    OwnFolder,
    lock_within,
)
from headgate.tree import exclude_internal, safe_folder, tracked_files

WORKER_LOG_BYTES = 1_000_000
BALLAST_BYTES = 262_144
TRACE_CHARS = 20_000
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
REPORTED: frozenset[TaskState] = frozenset({"SUCCESS", "STUCK", "INFRA_ERROR"})
"""States that have a line in task_reports.jsonl."""


class Folder:
    """Headgate's own files in a repository, kept out of git."""

    def __init__(self, repo: Path) -> None:
        self.path = repo / OWN_FOLDER
        self.database = self.path / "headgate.db"
        self.runs = self.path / "runs"
        self.outputs = self.path / "outputs"
        self.context = self.path / "context.md"
        self.reports = self.path / "task_reports.jsonl"
        self.worker_log = self.path / "worker.log"
        self.crash_trace = self.path / "last-words.txt"
        self.phase_logs = self.path / "logs"
        self.ballast = self.path / "ballast"
        self.repo = repo
        self.tree = repo
        """Where a task works: the repository itself, or a worktree of it; see `at`."""
        self.worktrees = self.path / "worktrees"
        self.own = OwnFolder(self.path)
        self.safe = safe_folder(repo)
        """What has to outlast a command that deletes the rest: `git clean -fdx` does."""
        self.objects = self.safe / "objects"
        self.lock = self.safe / "lock"
        self._reports_lock = self.path / "reports.lock"
        self._saved = 0

    def at(self, worktree: str) -> "Folder":
        """The same folder for a task that works in a worktree of its own, by the worktree's name.

        What tools read is in the worktree: the outputs that were too long for the model.
        """
        other = copy(self)
        other.tree = self.worktrees / worktree
        other.outputs = other.tree / OWN_FOLDER / "outputs"
        return other

    def work_lock(self) -> FileLock:
        """The lock of the process that carries tasks out here."""
        return FileLock(self.lock, self.safe.parent)

    def protected(self, task: str) -> Path:
        """The folder for what a command began with, and for what was replaced when files were put back."""
        # Files of a worktree must never be restored to the repository's own tree.
        kind = "protected" if self.tree == self.repo else "protected-in-worktrees"
        return self.safe / kind / task

    def sandbox(self, task: str) -> Path:
        """The folder for the private home and /tmp of a task's commands, while the task runs."""
        return self.safe / "sandbox" / task

    def create(self) -> None:
        """Makes the folder and tells git to leave it alone.

        A repository must not bring one along: what is in it could lead our writes anywhere.
        """
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            raise ConfigError(
                f"{self.path} is not a folder: move it away, because Headgate keeps its files there."
            )
        self.check_committed()
        self.path.mkdir(exist_ok=True)
        for entry in self.path.iterdir():
            if entry.is_symlink():
                raise ConfigError(
                    f"{entry} is a symbolic link, which Headgate never creates there: remove it."
                )
        OwnFolder(self.safe).make(self.safe)
        files = (self.reports, self._reports_lock, self.crash_trace, self.worker_log, self.ballast)
        if any(path.is_dir() for path in files):
            raise ConfigError(f"{self.path} has folders where Headgate keeps files: move it away.")
        exclude_internal(self.repo)

    def check_committed(self) -> None:
        """ConfigError if git tracks the folder: tasks that somebody else has committed prove nothing here.

        A team's commands for the terminal may be there. They are text that a person reads before it is sent.
        """
        own = (
            path for path in tracked_files(self.repo, OWN_FOLDER) if f"{path}/".startswith(f"{OWN_FOLDER}/")
        )
        if any(not path.startswith(f"{COMMANDS_FOLDER}/") for path in own):
            raise ConfigError(
                f"{OWN_FOLDER}/ is committed to git: remove it with git rm -r --cached {OWN_FOLDER}."
            )

    def recreate(self) -> None:
        """Makes the folder itself after a command removed it, or put something else in its place."""
        if self.path.is_symlink() or not self.path.is_dir():
            self.path.unlink(missing_ok=True)
        self.path.mkdir(exist_ok=True)

    def check_deleted(self) -> None:
        """HeadgateError if a command has just deleted the store of the process that works here."""
        if not self.database.exists() and self.work_lock().is_held():
            raise HeadgateError(
                f"A command of the running task deleted {self.path}."
                " Headgate restores it when the command ends: try again then."
            )

    def open_worker_log(self) -> IO[bytes]:
        """The log of detached workers, for appending; it is emptied when it has grown large."""
        log = os.fdopen(self.own.open(self.worker_log, _APPEND), "ab")
        if log.tell() > WORKER_LOG_BYTES:
            log.truncate(0)
        return log

    @contextmanager
    def writing_crash_trace(self) -> Iterator[None]:
        """Lets the interpreter write a traceback to a file if it crashes; otherwise the file is removed."""
        descriptor = self.own.open(self.crash_trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            faulthandler.enable(file)
            try:
                yield
            finally:
                faulthandler.disable()
        self.crash_trace.unlink(missing_ok=True)

    def read_crash_trace(self) -> str:
        """The traceback that an earlier process has left, if its interpreter crashed."""
        try:
            return self.own.read(self.crash_trace, most=TRACE_CHARS).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def log_phase(self, task: str, line: str) -> None:
        """Appends a line to the task's `.log` file, for people who tune phase control."""
        self.own.make(self.phase_logs)
        with os.fdopen(self.own.open(self.phase_logs / f"{task}.log", _APPEND), "ab") as log:
            log.write(f"{line}\n".encode())

    def save_output(self, task: str, text: str) -> str:
        """Keeps a text that was too long for the model; returns its path for `read_file`."""
        folder = self.outputs / task
        own = OwnFolder(self.outputs.parent)  # in a worktree, that one's
        own.make(folder)
        self._saved += 1
        path = folder / f"{self._saved:04}.txt"
        own.write(path, text.encode("utf-8", "replace"))
        return path.relative_to(self.tree).as_posix()

    def write_context(self, text: str) -> None:
        """Replaces the document about the task that runs."""
        self.own.replace(self.context, escape_controls(text).encode("utf-8", "replace"))

    def forget_context(self) -> None:
        """Removes it: the task has ended."""
        with suppress(OSError):
            self.context.unlink()

    def forget_outputs(self, task: str) -> None:
        """Removes what was kept for the model; it belongs to the conversation."""
        OwnFolder(self.outputs.parent).remove(self.outputs / task)

    def forget_protected(self, task: str) -> None:
        """Removes copies that an earlier task left under this id: ids start again if the store is deleted."""
        OwnFolder(self.safe).remove(self.protected(task))

    def forget_sandbox(self, task: str) -> None:
        """Removes what a task's commands left in their private folders."""
        OwnFolder(self.safe).remove(self.sandbox(task))

    def write_report(self, report: Report, state: State) -> Path | None:
        """Writes the line in task_reports.jsonl and the page for the ending, unless they are there.

        A crash may come before, between or within the two, so this is done again at the next start.
        """
        if report.state not in REPORTED:
            return None
        with self._reporting():
            page = self._page_of(report)
            self.own.make(page.parent)
            if not page.exists() or not page.stat().st_size:  # empty: a power cut came too early
                draft = page.with_name(f".{page.name}.new")
                descriptor = self.own.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(render_markdown(report, state))
                    _sync(file)
                draft.replace(page)
                sync_folder(page.parent)
            self._append_line(report)
        return page

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """One process at a time writes reports: a task's own, or one that finds that it is missing."""
        descriptor = self.own.open(self._reports_lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not lock_within(descriptor, fcntl.LOCK_EX):
                raise StoreError(f"another process keeps {self._reports_lock} locked: end it and run again")
            yield
        finally:
            os.close(descriptor)

    def keep_ballast(self) -> None:
        """Keeps a file that can be deleted, so that a task's end can be recorded on a full disk."""
        try:
            if not self.ballast.is_file() or self.ballast.lstat().st_size < BALLAST_BYTES:
                self.own.write(self.ballast, randbytes(BALLAST_BYTES))
        except OSError:
            self.drop_ballast()  # there is none to keep: a part of it helps nobody

    def drop_ballast(self) -> bool:
        """Deletes that file; False if there was none."""
        try:
            self.ballast.unlink()
        except OSError:
            return False
        return True

    def has_report(self, task: str) -> bool:
        """Whether the last line of task_reports.jsonl is whole and this task's."""
        try:
            with os.fdopen(self.own.open(self.reports), "rb") as lines:
                last, whole = _last_line(lines)
        except FileNotFoundError:
            return False
        return whole and _is_about(last, task)

    def _append_line(self, report: Report) -> None:
        descriptor = self.own.open(self.reports, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        with os.fdopen(descriptor, "ab+") as lines:
            last, whole = _last_line(lines)
            if not whole:
                lines.truncate(lines.seek(0, os.SEEK_END) - len(last))
                last, _ = _last_line(lines)
            known = _is_about(last, report.task_id)
            if not known:
                lines.write(report.model_dump_json().encode() + b"\n")
                _sync(lines)
        if known or not last:  # a crash came in between, or the file is new
            sync_folder(self.path)

    def _page_of(self, report: Report) -> Path:
        if report.state != "SUCCESS":
            return self.path / "stuck" / f"{report.task_id}.md"
        folder = self.path / "context"
        taken = [re.fullmatch(r"context_(\d+)\.md", path.name) for path in folder.glob("context_*.md")]
        number = max((int(match[1]) for match in taken if match), default=0)
        latest = folder / f"context_{number:03}.md"
        text = self.own.read(latest).decode("utf-8", "replace") if number else ""
        if number and (not text or f"| task | {report.task_id} |" in text):
            return latest
        return folder / f"context_{number + 1:03}.md"


def _sync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _is_about(line: bytes, task: str) -> bool:
    return line.startswith(f'{{"task_id":"{task}",'.encode())


def _last_line(lines: IO[bytes]) -> tuple[bytes, bool]:
    """The last line of a file, and whether it has an end."""
    end = position = lines.seek(0, os.SEEK_END)
    found = b""
    while position and b"\n" not in found[:-1]:
        position = max(0, position - 65_536)
        lines.seek(position)
        found = lines.read(end - position)
    line = found[found[:-1].rfind(b"\n") + 1 :]
    return line, line.endswith(b"\n") or not line
