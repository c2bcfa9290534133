"""The tasks that are typed one after the other. Each follows the one before; lines in between steer it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import field

from headgate.cli.approval import ANSWERS, describe, question_for
from headgate.cli.commands.steer import describe_hearing
from headgate.cli.endings import last_lines
from headgate.cli.failures import describe_failure, find_leaf
from headgate.cli.follow import run_shown
from headgate.cli.interactive.screen import Screen, TaskView
from headgate.cli.live import style_of
from headgate.cli.stored_tasks import pause_sentence
from headgate.cli.task_text import clean_output
from headgate.core import SETTLED_STATES, Access, Constraints, Options, Task
from headgate.engine import Engine
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import dataclass
from headgate.guard import Answer
from headgate.log import Report
from headgate.process import kill_own_commands


@dataclass
class Conversation:
    """What is typed goes to the task that runs, or else becomes a task that follows the last one."""

    engine: Engine
    screen: Screen
    chosen: Options
    """The model, the flow and the like that tasks are given."""
    on_end: Callable[[], None] = lambda: None
    """Called when a task has ended, and files may have changed."""
    reports: list[Report] = field(default_factory=list)
    """How the tasks of this session ended."""
    previous: str = ""
    """The task that the next one follows; empty if it follows none."""
    output: str = ""
    """What a person's own command has printed last; it can be attached."""
    attached: str = ""
    """What the next task gets with its text."""
    running: Task | None = None
    _work: "asyncio.Task[None] | None" = None
    _is_forgotten: bool = False
    """The next task is to follow nothing, the one that runs included."""
    _presses: int = 0
    """How often the running task was to be cancelled."""
    _asked: "asyncio.Task[str] | None" = None
    """The question whether the running task may do something."""
    _refuses: bool = False
    """Nobody is to be asked any more: the task is being cancelled, or the terminal is gone."""

    def __post_init__(self) -> None:
        self.view = TaskView(self.engine.bus, self.screen)
        self._loop = asyncio.get_running_loop()
        self.engine.person = self.permit
        self.engine.on_notice = self.screen.show

    @property
    def is_busy(self) -> bool:
        return self._work is not None and not self._work.done()

    def take(self, text: str) -> None:
        """A typed text: for the task that runs, or a new task."""
        if self.running and self.say(text):
            return
        if self.is_busy and self.running is None:
            self.screen.show("Wait until this has ended, or press Ctrl-C to cancel it.")
            self.screen.give_back(text)
            return
        self.submit(text)

    def say(self, text: str) -> bool:
        """Tells the task that runs something; False if it has just ended, or none runs."""
        if self.running is None or not self.engine.say(self.running.id, self.screen.pasted.expand(text)):
            return False
        row = self.engine.store.task(self.running.id)
        self.screen.show(describe_hearing(self.running.id, row.state if row else "RUNNING"), "dim")
        return True

    def check_idle(self) -> None:
        """ConfigError while something runs."""
        if self.is_busy:
            raise ConfigError("A task is running: wait for its end, or press Ctrl-C to cancel it.")

    def forget(self) -> None:
        """The next task follows none, and gets nothing but its text."""
        self.previous = self.output = self.attached = ""
        self._is_forgotten = self.running is not None

    def attach(self) -> str:
        """Gives the output of the last command to the next task; what to say about it."""
        if not self.output:
            raise ConfigError("There is no output to attach: !COMMAND runs a command.")
        self.attached = clean_output("\n\n".join(filter(None, (self.attached, self.output))))
        self.output = ""
        return f"The next task gets this output, {count_lines(self.attached)}."

    def submit(self, text: str, **options: object) -> None:
        """Starts a task that follows the one before."""
        given = self.screen.pasted.read(text, lambda told: self.screen.show(told, "dim"))
        attached = clean_output("\n\n".join(filter(None, (self.attached, given.attached))))
        update = {**options, "follows": self.previous, "attached": attached}
        asked = self.chosen.model_copy(update=update)

        async def begin() -> Task:
            task = self.engine.submit(given.text, Constraints(), asked)
            self.attached = ""
            for line in self.engine.describe_boundaries(task):
                self.screen.show(line)
            return task

        self.begin(begin)

    def begin(self, begin: Callable[[], Awaitable[Task]]) -> None:
        """Begins a task and shows it to its end, while the prompt stays usable."""
        self.check_idle()
        self.work_on(self._carry_out(begin))

    def work_on(self, work: Awaitable[None]) -> None:
        """Has something run beside the prompt. Its errors are a line, and Ctrl-C cancels it."""
        self._presses, self._refuses = 0, False
        self._work = asyncio.create_task(self._guard(work))

    async def _guard(self, work: Awaitable[None]) -> None:
        drawing = asyncio.create_task(self.screen.keep_fresh())
        try:
            await work
        except asyncio.CancelledError:
            self.screen.show("Cancelled.", "yellow")
        except HeadgateError as error:
            self.screen.show(" ".join(str(error).split()), "red")
        except Exception as bug:  # noqa: BLE001 - the prompt stays, and the person reads what happened
            self.screen.show(describe_failure(find_leaf(bug))[0], "red")
        finally:
            drawing.cancel()
            self.running = None
            self.on_end()

    async def _carry_out(self, begin: Callable[[], Awaitable[Task]]) -> None:
        self.running = task = await begin()
        self.view = TaskView(self.engine.bus, self.screen)
        report, _ = await run_shown(self.engine, task, self.view)
        self._show_ending(report)

    def _show_ending(self, report: Report) -> None:
        self.running = None
        if report.state in SETTLED_STATES and self.engine.store.task(report.task_id):
            self.reports.append(report)
            self.previous = "" if self._is_forgotten else report.task_id
        self._is_forgotten = False
        for line in last_lines(report, at_prompt=True):
            self.screen.show(line, style_of(line))
        if paused := pause_sentence(self.engine.store, self.engine.folder):
            self.screen.show(paused)

    # Permission to run a command or to write a file.

    def permit(self, access: Access) -> Answer:
        """Asks in the prompt. It is called in the thread of a tool, and waits there for the answer."""
        return asyncio.run_coroutine_threadsafe(self._permit(access), self._loop).result()

    async def _permit(self, access: Access) -> Answer:
        if self._refuses:
            return "no"
        first, *lines = describe(access)
        self.screen.show(first, "bold")
        for line in lines:
            self.screen.show(line, hanging=4)
        asking = self.screen.ask(question_for(access), {typed: typed for typed in ANSWERS})
        self._asked = asyncio.create_task(asking)
        try:
            return ANSWERS[await self._asked]
        except asyncio.CancelledError:
            return "no"
        finally:
            self._asked = None

    def refuse_all(self) -> None:
        """Answers the question that waits, and all others of this task, with no."""
        self._refuses = True
        if self._asked:
            self._asked.cancel()

    # Stopping.

    def cancel(self) -> bool:
        """Cancels what runs; False if nothing does. The second time, its command is killed at once."""
        if not self.is_busy:
            return False
        self._presses += 1
        self.refuse_all()
        if self.running is None:
            assert self._work is not None
            self._work.cancel()
        elif self._presses == 1:
            name = self.running.id
            if self.engine.cancel(name) == "asked":
                self.screen.show(
                    f"Cancelling task {name}; its changes so far stay. Ctrl-C again stops it at once.",
                    "yellow",
                )
        else:
            self.screen.show("Stopping it at once.", "yellow")
            kill_own_commands()
        return True

    def conclude(self) -> str:
        """Asks for the running task to be concluded with what there is; what to say about it."""
        if self.running is None:
            return "No task is running."
        if not self.engine.conclude(self.running.id):
            return f"Task {self.running.id} has not started: /cancel removes it from the queue."
        return f"Task {self.running.id} was asked to conclude with what it has."

    async def ended(self) -> None:
        """Waits until nothing runs."""
        if self._work:
            with suppress(asyncio.CancelledError):
                await asyncio.wait({self._work})

    @property
    def notice(self) -> str:
        """What the next task gets besides its text."""
        return f"{count_lines(self.attached)} attached" if self.attached else ""

    def status(self, width: int) -> Sequence[tuple[str, str]]:
        """What stands below the prompt."""
        if self.running:
            return self.view.status(width)
        if self.is_busy:
            return [("class:status", "Working")]
        return []


def count_lines(text: str) -> str:
    """`1 line`, `12 lines`."""
    lines = len(text.splitlines())
    return f"{lines:,} line{'s' * (lines != 1)}"
