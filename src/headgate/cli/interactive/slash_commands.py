"""The commands after a slash: what each is for, and what it does."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from headgate.cli.commands.look_back import story_lines, task_list
from headgate.cli.commands.settle import NOT_VERIFIED, find_named, find_settled, merged_lines, undone_lines
from headgate.cli.commands.verify import say_result, verify_tree
from headgate.cli.endings import describe_usage, last_lines, usage_lines
from headgate.cli.interactive.completion import Choice
from headgate.cli.interactive.conversation import Conversation
from headgate.cli.interactive.kept_lines import Answers
from headgate.cli.interactive.model_menu import USUAL, ModelMenu
from headgate.cli.interactive.saved_commands import SavedCommand, SavedCommands, load_commands
from headgate.cli.interactive.screen import YES_OR_NO
from headgate.cli.interactive.typed_lines import LEAVING
from headgate.cli.main import COMMANDS as SHELL_COMMANDS
from headgate.cli.printing import printable
from headgate.cli.stored_tasks import find_task
from headgate.config import Config, Loaded, builtin_flows, flow_from_config, show_address, user_config_path
from headgate.core import SETTLED_STATES, Options, VerifyStep, nearest, plain
from headgate.engine import (
    FLOW_NAMES,
    Merged,
    MergeProgress,
    Overlap,
    StepsOutcome,
    diff_of,
    is_mergeable,
)
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.log import TaskRow, build_report, load_state
from headgate.models import profile_for

MOST_DIFF_LINES = 400


@dataclass
class SlashCommands:
    """Carries out what stands after a slash. It knows the conversation and the repository's own commands."""

    talk: Conversation
    repo: Path
    answers: Answers
    read_config: Callable[[Options], Loaded]
    """The configuration as it is now, for a task with these options."""
    wants_to_quit: bool = False
    saved: SavedCommands = field(default_factory=lambda: SavedCommands({}))
    models: ModelMenu = field(default_factory=ModelMenu)

    def look(self) -> None:
        """Reads the commands of the repository and of the user again; says what is wrong with new ones."""
        known = set(self.saved.problems)
        folder = user_config_path().parent / "commands"
        self.saved = load_commands(self.repo, folder, frozenset(COMMANDS) | LEAVING)
        for problem in self.saved.problems:
            if problem not in known:
                self._show(problem)

    def names(self) -> Mapping[str, str]:
        """Every command with what it is for."""
        return {name: inspect.getdoc(run) or "" for name, run in COMMANDS.items()} | {
            name: one.description for name, one in self.saved.found.items()
        }

    def arguments(self, name: str) -> Iterator[Choice]:
        """What may stand behind a command's name."""
        if name in _ABOUT_TASKS - {"tasks"}:
            for row in reversed(self.talk.engine.store.tasks()):
                yield row.task.id, f"{row.state}  {printable(row.task.text.strip().splitlines()[0])[:60]}"
        elif name == "flow":
            yield from ((flow, "") for flow in (USUAL, *builtin_flows()))
        elif name == "model":
            config = self._usual_config()
            yield from ((model, "") for model in dict.fromkeys((USUAL, *config.models, *self.models.offered)))

    async def run(self, name: str, rest: str) -> None:
        """Carries one out. ConfigError if there is none of the name, or something is wrong with it."""
        if name in _ABOUT_TASKS and self.talk.engine.store.latest() is None:
            raise ConfigError("This repository has no tasks yet: type what to do.")
        if name in COMMANDS:
            await COMMANDS[name](self, rest)
            return
        self.look()
        if name in self.saved.found:
            await self._send(self.saved.found[name], rest)
            return
        raise ConfigError(self._explain_unknown(name))

    def _explain_unknown(self, name: str) -> str:
        if name == "compact":  # people know it from other programs
            return "Nothing to compact: a long conversation is shortened by itself, and /new starts another."
        if name in SHELL_COMMANDS:
            return f"There is no command /{name} here: headgate {name}, in a shell, does it."
        close = nearest(name, self.names())
        hint = f"did you mean /{close}?" if close else "/help lists the commands."
        return f"There is no command /{name}: {hint} A task that begins with a slash needs two."

    def _show(self, text: str, style: str = "") -> None:
        self.talk.screen.show(text, style)

    # Tasks.

    async def tasks(self, rest: str) -> None:
        """List the tasks."""
        for line, hanging in task_list(self.repo, self.talk.screen.width):
            self.talk.screen.show(line, hanging=hanging or 4)

    async def show(self, rest: str) -> None:
        """Show how a task went, with its calls: /show [ID]."""
        row = self._row(rest)
        store, folder = self.talk.engine.store, self.talk.engine.folder
        for line, hanging in story_lines(row, store.events(row.task.id), folder, detail=True):
            self.talk.screen.show(line, hanging=hanging or 0)
        if row.state in SETTLED_STATES:
            report = build_report(load_state(store, row))
            self._show("")
            for line in last_lines(report, detailed=True, at_prompt=True):
                self._show(line)

    async def diff(self, rest: str) -> None:
        """Show what a task changed or proposes: /diff [ID]."""
        row = self._row(rest)
        state = load_state(self.talk.engine.store, row)
        lines = diff_of(self.repo, row, state).decode("utf-8", "replace").splitlines()
        if not lines:
            self._show(f"Task {row.task.id} changes nothing.")
        for line in lines[:MOST_DIFF_LINES]:
            if not line.startswith("index "):  # its long hashes are for git
                self.talk.screen.show_whole(line, _diff_style(line))
        if len(lines) > MOST_DIFF_LINES:
            more = len(lines) - MOST_DIFF_LINES
            self._show(f"... and {more} more lines: headgate diff {row.task.id} prints them all.")

    async def apply(self, rest: str) -> None:
        """Write and verify a proposal or a worktree: /apply [ID]."""
        self.talk.check_idle()
        row = self._settled(rest)
        if is_mergeable(row):
            self.talk.work_on(self._merge(row.task.id))
        else:
            self.talk.begin(lambda: self.talk.engine.apply(row.task.id))

    async def _merge(self, name: str) -> None:
        """Brings in what a task did in its worktree, and verifies it."""

        def show(merged: Merged) -> None:
            for line in merged_lines(merged):
                self._show(plain(line))

        outcome = await self.talk.engine.merge(name, MergeProgress(show, self._show_step))
        if isinstance(outcome, Overlap):
            self._show_overlap(outcome)
        elif outcome.verification is None:
            self._show(NOT_VERIFIED)
        else:
            self._show_steps(outcome.verification)

    def _show_overlap(self, overlap: Overlap) -> None:
        for line in overlap.sentences():
            self._show(plain(line), "yellow")

    async def abort(self, rest: str) -> None:
        """Discard a proposal or a worktree: /abort [ID]."""
        self.talk.check_idle()
        row = self._settled(rest)
        task = await self.talk.engine.abort(row.task.id)
        self._show(f"The {'worktree' if is_mergeable(row) else 'proposal'} of task {task.id} was discarded.")

    async def undo(self, rest: str) -> None:
        """Undo what a task changed: /undo [ID]."""
        self.talk.check_idle()
        name = find_named(self.talk.engine.store, rest.strip() or None)

        async def run() -> None:
            outcome = await self.talk.engine.undo(name)
            if isinstance(outcome, Overlap):
                self._show_overlap(outcome)
                return
            for line in undone_lines(outcome):
                self._show(plain(line))

        self.talk.work_on(run())

    async def cancel(self, rest: str) -> None:
        """Cancel the running task, as Ctrl-C does, or another: /cancel [ID]."""
        if rest.strip() and not (self.talk.running and rest.strip().lower() == self.talk.running.id):
            name = self._row(rest).task.id
            outcomes = {
                "removed": f"Task {name} was removed from the queue.",
                "returned": f"Task {name} left the queue and is a proposal again.",
                "asked": f"Task {name} was asked to stop.",
            }
            self._show(outcomes.get(self.talk.engine.cancel(name), f"Task {name} has already ended."))
        elif not self.talk.cancel():
            self._show("No task is running.")

    async def stop(self, rest: str) -> None:
        """Let the running task conclude with what it has."""
        self._show(self.talk.conclude())

    async def say(self, rest: str) -> None:
        """Tell the running task something: /say TEXT."""
        if not self.talk.say(self._needs(rest, "say", "what to tell the task")):
            self._show("No task is running: what you type without a command becomes a task.")

    async def ask(self, rest: str) -> None:
        """Ask a question; no file is changed: /ask TEXT."""
        self.talk.check_idle()
        self.talk.submit(self._needs(rest, "ask", "a question about the code"), flow="ask")

    async def propose(self, rest: str) -> None:
        """Do it without writing, for /apply: /propose TEXT."""
        self.talk.check_idle()
        self.talk.submit(self._needs(rest, "propose", "what to do"), dry_run=True)

    async def new(self, rest: str) -> None:
        """Start a new conversation: the next task follows none."""
        self.talk.forget()
        self._show("The next task starts a new conversation.")

    async def clear(self, rest: str) -> None:
        """Clear the window and start a new conversation."""
        self.talk.screen.clear()
        await self.new(rest)

    async def attach(self, rest: str) -> None:
        """Give the output of the last !COMMAND to the next task."""
        self._show(self.talk.attach())

    async def verify(self, rest: str) -> None:
        """Run the verification steps now."""
        self.talk.check_idle()
        self.talk.work_on(self._run_steps())

    async def _run_steps(self) -> None:
        config = self.read_config(self.talk.chosen).config
        if not config.verification.steps:
            self._show("No verification steps are configured: headgate init finds some.")
            return
        self._show_steps(await verify_tree(self.repo, config, self._show_step))

    def _show_step(self, step: VerifyStep) -> None:
        self._show(f"Running {step.name} ...")

    def _show_steps(self, found: StepsOutcome) -> None:
        for ran in found.ran:
            line = f"{ran.step.name}: {say_result(ran)}"
            self._show(line, "red" if ran in found.failed else "green")
            for output in ran.tail.splitlines()[-20:] if ran in found.failed else ():
                self._show(f"  | {output}")
        if found.broken:
            self._show(found.sentence(), "red")
        if found.log:
            self._show(f"Log: {found.log}", "dim")

    # What the next tasks use.

    async def flow(self, rest: str) -> None:
        """Show or choose the flow: /flow [NAME]."""
        name = rest.strip()
        if not name:
            chosen = self.talk.chosen.flow
            self._show(f"The flow is {chosen}." if chosen else "The configuration chooses the flow.")
            self._show(f"/flow NAME chooses another: {', '.join((USUAL, *builtin_flows()))}, or a file.")
            return
        self._choose(flow=None if name == USUAL else name)
        self._show(
            f"The next tasks use the flow {name}." if name != USUAL else "The configuration chooses again."
        )

    async def model(self, rest: str) -> None:
        """List the models, or choose one: /model [NAME]."""
        name = self.models.find(rest.strip())
        if not rest.strip():
            config = self.read_config(self.talk.chosen).config
            for line in await self.models.lines(config, self._usual_config()):
                self.talk.screen.show(line, hanging=6)
            return
        asked = self.talk.chosen.model_copy(update={"model": None if name == USUAL else name})
        self.models.check(name, self.read_config(asked).config.model_settings())
        self._choose(model=asked.model)
        settings = self.read_config(self.talk.chosen).config.model_settings()
        where = f" at {show_address(settings.base_url)}" if settings.base_url else ""
        self._show(f"The next tasks use {settings.model}{where}.")

    def _choose(self, **options: str | None) -> None:
        """Sets options for the next tasks. ConfigError if no task could have them."""
        asked = self.talk.chosen.model_copy(update=options)
        loaded = self.read_config(asked)
        profile_for(loaded.config.model_settings())
        flow_from_config(loaded.config, asked.flow, self.repo, FLOW_NAMES, loaded.documents)
        self.talk.chosen = asked

    def _usual_config(self) -> Config:
        """The configuration without the model and the flow that a person has chosen here."""
        return self.read_config(Options(config=self.talk.chosen.config)).config

    async def cost(self, rest: str) -> None:
        """Show tokens and money, of this session and of the last task."""
        reports = self.talk.reports
        spent = [line for report in reports for line in report.usage]
        if not spent:
            self._show("Nothing was spent yet.")
            return
        self._show(f"This session, {len(reports)} task{'s' * (len(reports) != 1)}: {describe_usage(spent)}.")
        self._show(f"The last task, {reports[-1].task_id}:")
        for line in usage_lines(reports[-1].usage):
            self._show(line)
        if not any(line.cost for line in spent):
            self._show("No price is known: set `price` for the model to count money.")

    # The rest.

    async def help(self, rest: str) -> None:
        """List the commands."""
        self.look()
        self._show(
            "Type what to do, and press Enter. Alt-Enter, or a backslash at the end, begins another line."
        )
        self._show("The model reads what you type while a task runs. Ctrl-C cancels the task.")
        self._show("!COMMAND runs a command of the shell, such as !git status.")
        width = max(map(len, self.names())) + 2
        for name, meaning in self.names().items():
            self.talk.screen.show(f"  /{name.ljust(width)}{meaning}", hanging=width + 3)

    async def quit(self, rest: str) -> None:
        """Quit; /exit, /q and Ctrl-D do, too."""
        self.wants_to_quit = True

    async def _send(self, command: SavedCommand, rest: str) -> None:
        """Sends a saved command's text, which a person has seen if it came with the repository."""
        text = command.fill(self.talk.screen.pasted.expand(rest))
        if command.by_repository and not self.answers.has(command.digest):
            self._show(f"{command.file} says:", "bold")
            for line in text.splitlines():  # all of it: what is not seen cannot be approved
                self.talk.screen.show(f"  {line}", hanging=2)
            asked = "Send this text, now and from now on? [y] yes  [N] no: "
            if await self.talk.screen.ask(asked, YES_OR_NO) != "yes":
                self._show("It was not sent.")
                return
            self.answers.add(command.digest)
        self.talk.take(text)

    def _needs(self, rest: str, name: str, what: str) -> str:
        if not rest.strip():
            self.talk.screen.give_back(f"/{name} ")
            raise ConfigError(f"/{name} needs {what}: /{name} TEXT.")
        return rest

    def _row(self, rest: str) -> TaskRow:
        """The task that is named; without a name the running one, or else the last of this conversation."""
        running = self.talk.running.id if self.talk.running else ""
        return find_task(self.talk.engine.store, rest.strip() or running or self.talk.previous or None)

    def _settled(self, rest: str) -> TaskRow:
        """The task that waits to be applied or discarded: the one named, the last one, or the only one."""
        store = self.talk.engine.store
        last = store.task(self.talk.previous) if self.talk.previous else None
        if not rest.strip() and last and last.state == "PROPOSED":
            return last
        return find_settled(store, rest.strip() or None)


_ABOUT_TASKS = frozenset({"tasks", "show", "diff", "apply", "abort", "undo", "cancel"})


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


_ORDER = (
    *("tasks", "show", "diff", "ask", "propose", "apply", "abort", "undo", "verify", "say", "stop", "cancel"),
    *("new", "clear", "attach", "flow", "model", "cost", "help", "quit"),
)
COMMANDS: dict[str, Callable[[SlashCommands, str], Awaitable[None]]] = {
    name: getattr(SlashCommands, name) for name in _ORDER
}
"""Every built-in command, in the order in which they are listed; its docstring says what it is for."""
