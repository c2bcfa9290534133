"""Bare `headgate` on a terminal: puts the parts of the interactive mode together, and ends it."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.cli.failures import describe_failure
from headgate.cli.interactive.completion import Choice, FileNames, PromptCompleter
from headgate.cli.interactive.conversation import Conversation
from headgate.cli.interactive.first_start import model_problem, offer_config
from headgate.cli.interactive.kept_lines import Answers, KeptLines, state_folder
from headgate.cli.interactive.screen import Screen
from headgate.cli.interactive.shell_lines import ShellLines
from headgate.cli.interactive.slash_commands import COMMANDS, SlashCommands
from headgate.cli.interactive.typed_lines import Typed, find_misplaced, read_line
from headgate.cli.main import COMMANDS as SHELL_COMMANDS
from headgate.cli.shared import find_repo_to_act, flow_argument
from headgate.cli.stored_tasks import find_interruption
from headgate.cli.terminal import redirect_to_null, terminal_descriptors
from headgate.cli.worker import leave_to_worker, open_engine, use_worker_signals
from headgate.config import Loaded, depends_on_goal, flow_from_config
from headgate.core import Options
from headgate.engine import FLOW_NAMES, ConfigReader, Engine
from headgate.errors import ConfigError, HeadgateError
from headgate.tree import GitFailed, git_folder, read_regular

_LEAVING = "Task {name} is running. [c] cancel it  [b] run it in the background  [S] stay: "
_WAYS = {"c": "cancel", "cancel": "cancel", "b": "background", "background": "background", "": "stay"}
_WAYS |= {"s": "stay", "stay": "stay"}


def interact(
    show_typing: Callable[[], None],
    *,
    repo: Path | None,
    config: Path | None,
    flow: str | None,
    **model: str | None,
) -> int:
    """Runs the interactive mode until the person quits; returns the exit code.

    `show_typing` is called when there is a prompt, or a question.
    """
    root = find_repo_to_act(repo)
    file = str(config.absolute()) if config else None
    options = Options(flow=flow_argument(flow), config=file, **model)
    answers = Answers(state_folder(), root)
    offer_config(root, answers, show_typing)
    return asyncio.run(_interact(root, options, answers, show_typing))


async def _interact(root: Path, options: Options, answers: Answers, show_typing: Callable[[], None]) -> int:
    with open_engine(root, tell=lambda note: None) as engine:  # the prompt shows them
        session = Session(root, options, answers, engine)
        show_typing()
        return await session.run()


class Session:
    """One stay at the prompt."""

    def __init__(self, root: Path, options: Options, answers: Answers, engine: Engine) -> None:
        self._root, self._engine = root, engine
        history = KeptLines(state_folder(), root, os.environ)
        self._files = FileNames(root, self._secret_files(options))
        completer = PromptCompleter(self._names, self._arguments, self._files)
        self._screen = Screen(history, completer, self._status, self._interrupt)
        history.expand = self._screen.pasted.expand
        self._talk = Conversation(engine, self._screen, options, self._look)
        self._settings = ""
        """The model and the flow of the next task, as `_look_at_settings` found them."""
        self._shell = ShellLines(self._talk, self._read_config)
        self._commands = SlashCommands(self._talk, root, answers, self._read_config)
        self._terminals = terminal_descriptors()
        self._showing: asyncio.Task[None] | None = None
        self._is_leaving = False
        """The prompt is being closed, because a worker goes on with the task."""
        self._is_ending = False
        """A signal has asked for the end: nothing is to be asked any more."""

    def _names(self) -> Mapping[str, str]:
        return self._commands.names()

    def _arguments(self, name: str) -> Iterable[Choice]:
        return self._commands.arguments(name)

    def _status(self, width: int) -> Sequence[tuple[str, str]]:
        branch = find_branch(self._root)
        parts = (self._settings, branch and f"branch {branch}", self._talk.notice)
        return [*self._talk.status(width), ("class:dim", "   ".join(filter(None, parts)))]

    def _look(self) -> None:
        """Looks again at what may have changed: files, and the configuration."""
        self._files.look()
        self._look_at_settings()

    def _look_at_settings(self) -> None:
        """What is wrong with the configuration is said where a task is to start."""
        chosen = self._talk.chosen
        try:
            loaded = self._read_config(chosen)
            config, flow = loaded.config, "auto"
            if chosen.flow is not None or not depends_on_goal(config):
                flow = flow_from_config(config, chosen.flow, self._root, FLOW_NAMES, loaded.documents).name
        except ConfigError:
            self._settings = "agent.yaml cannot be used"
        else:
            self._settings = f"{config.model or 'no model'}   flow {flow}"

    def _read_config(self, options: Options) -> Loaded:
        return ConfigReader(self._root, os.environ)(options)

    def _secret_files(self, options: Options) -> tuple[str, ...]:
        try:
            return tuple(self._read_config(options).config.secret_files)
        except ConfigError:
            return ()  # it is said when the prompt appears

    async def run(self) -> int:
        """Shows the prompt and carries out what is typed, until the person quits or the terminal closes."""
        self._heed_signals()
        self._look()
        showing = self._showing = asyncio.create_task(self._screen.run())
        working = asyncio.create_task(self._work())
        await asyncio.wait({showing, working}, return_when=asyncio.FIRST_COMPLETED)
        if self._is_leaving:
            await asyncio.wait({working})  # it closed the prompt itself, and ends this process
        if not working.done():
            working.cancel()
            self._hang_up()  # the terminal is gone, and nobody asked for anything to end
        await self._talk.ended()
        self._screen.close()
        with suppress(EOFError):
            await showing
        with suppress(asyncio.CancelledError):
            await working
        return os.EX_OK

    async def _greet(self) -> None:
        for note in self._engine.notes:
            self._screen.show(note)
        self._screen.show("Type a task, or /help. Ctrl-D quits.", "dim")
        self._commands.look()
        running = self._engine.store.running()
        if running:
            hint = find_interruption(self._engine.store, self._engine.folder, running)
            name = running.task.id
            self._screen.show(
                f"Task {name} was interrupted: {hint}"
                if hint
                else f"Task {name} is running in another process: headgate watch {name} follows it."
            )
        try:
            loaded = self._read_config(self._talk.chosen)
        except ConfigError as error:
            self._screen.show(f"Tasks cannot be started yet: {error}", "yellow")
            return
        for note in loaded.notes:
            self._screen.show(note)
        if problem := await model_problem(loaded):
            self._screen.show(f"{problem} headgate doctor says more.", "yellow")

    async def _work(self) -> None:
        greeting = asyncio.create_task(self._greet())
        while not self._commands.wants_to_quit:
            line = await self._screen.lines.get()
            if line is None:
                self._commands.wants_to_quit = True
            else:
                await self._take(line)
            if self._commands.wants_to_quit and self._talk.is_busy and not self._is_ending:
                self._commands.wants_to_quit = await self._leave()
        greeting.cancel()

    async def _take(self, line: str) -> None:
        typed = read_line(line)
        try:
            match typed:
                case None:
                    pass
                case Typed("command", name, rest):
                    await self._commands.run(name, rest)
                    self._look_at_settings()
                case Typed("shell", command):
                    await self._shell.run(self._screen.pasted.expand(command))
                case Typed(_, text) if not self._turn_back(text):
                    self._talk.take(text)
        except HeadgateError as error:
            self._screen.show(" ".join(str(error).split()), "red")
        except Exception as bug:  # noqa: BLE001 - the prompt stays, and the person reads what happened
            self._screen.show(describe_failure(bug)[0], "red")

    def _turn_back(self, text: str) -> bool:
        """Says what to type instead of a line that would be a strange task; False if it is none."""
        found = find_misplaced(text, COMMANDS, SHELL_COMMANDS)
        if found:
            self._screen.show(found.said)
            self._screen.give_back(found.instead)
        return found is not None

    async def _leave(self) -> bool:
        """Asks what becomes of the task that runs; False if the person stays."""
        if self._talk.running is None:
            self._talk.cancel()  # nothing that could go on without this process
            return True
        name = self._talk.running.id
        how = await self._screen.ask(_LEAVING.format(name=name), _WAYS)
        if not self._talk.is_busy:
            return how != "stay"  # it has ended meanwhile
        if how == "background":
            self._screen.show(f"Task {name} continues in the background: headgate watch {name} follows it.")
            self._is_leaving = True
            self._screen.close()
            if self._showing:
                await asyncio.wait({self._showing})  # the terminal is as it was before
            leave_to_worker(self._root, self._engine.working_lock())
        if how == "cancel":
            self._talk.cancel()
        return how == "cancel"

    # Ctrl-C and other signals.

    def _interrupt(self) -> None:
        if self._talk.cancel():
            return
        if self._screen.dismiss():
            return
        if self._screen.buffer.text:
            self._screen.buffer.reset()
        else:
            self._screen.show("Ctrl-D or /quit quits.", "dim")

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._terminate,
            signal.SIGHUP: self._hang_up,
        }
        for number, action in actions.items():
            loop.add_signal_handler(number, action)

    def _terminate(self) -> None:
        """Cancels what runs, and quits when that has ended."""
        self._is_ending = True
        self._talk.cancel()
        self._screen.dismiss()
        self._commands.wants_to_quit = True
        self._screen.lines.put_nowait("")

    def _hang_up(self) -> None:
        """The terminal is closed. The task goes on, and this process is its worker."""
        # The shell that goes down as well makes it two signals.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        use_worker_signals()
        self._talk.refuse_all()
        self._screen.abandon()
        for descriptor in self._terminals:
            redirect_to_null(descriptor)


def find_branch(repo: Path) -> str:
    """The branch that is checked out, or the beginning of the commit's hash; empty if git does not tell."""
    try:
        head = os.fsdecode(read_regular(git_folder(repo) / "HEAD", 4096)).strip()
    except (OSError, GitFailed):
        return ""
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return head[:8]
