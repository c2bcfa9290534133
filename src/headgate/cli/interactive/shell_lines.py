"""Commands of the shell that a person types after an exclamation mark: `!git status`."""

import asyncio
import os
from collections.abc import Callable

from headgate.cli.interactive.conversation import Conversation
from headgate.cli.interactive.screen import YES_OR_NO
from headgate.config import Config, Loaded
from headgate.core import Options, plain
from headgate.engine import find_sandbox, run_own_command
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.process import NoSandbox

MOST_LINES = 400
"""Lines of output that are shown; more can be attached to a task."""


@dataclass
class ShellLines:
    """Runs such commands, as the commands of a task are run, after one question in each session."""

    talk: Conversation
    read_config: Callable[[Options], Loaded]
    _is_allowed: bool = False

    async def run(self, command: str) -> None:
        """Asks, if that has not been answered, and begins. ConfigError if something stands in the way."""
        if not command:
            raise ConfigError("Type a command behind the exclamation mark, such as !git status.")
        self.talk.check_idle()
        config = self.read_config(self.talk.chosen).config
        if not self._is_allowed and not await self._ask(command, config):
            self.talk.screen.show("It was not run.")
            return
        self._is_allowed = True
        self.talk.work_on(self._run(command, config))

    async def _ask(self, command: str, config: Config) -> bool:
        found = await asyncio.to_thread(find_sandbox, config, os.environ)
        if isinstance(found, NoSandbox):
            told = f"without a sandbox ({found.reason}): they can do whatever you can do."
        else:
            network = "with" if config.commands.network else "without"
            told = f"in the sandbox of a task's commands: {network} network, .git read-only, secrets hidden."
        self.talk.screen.show(f"Commands after an exclamation mark run {told}")
        asked = f"Run {command.splitlines()[0][:60]}, and later ones of this session? [y] yes  [N] no: "
        return await self.talk.screen.ask(asked, YES_OR_NO) == "yes"

    async def _run(self, command: str, config: Config) -> None:
        screen, shown = self.talk.screen, 0

        def show(line: str) -> None:
            nonlocal shown
            shown += 1
            if shown <= MOST_LINES:
                screen.show_whole(plain(line))

        result = await run_own_command(self.talk.engine.folder, config, command, show)
        if shown > MOST_LINES:
            screen.show(f"... and {shown - MOST_LINES} more lines.", "dim")
        status = "It took too long and was stopped" if result.timed_out else f"Exit code {result.exit_code}"
        self.talk.output = f"$ {command}\n{result.output.rstrip()}\n{status}"
        screen.show(f"{status}. /attach adds the output to the next task.", "dim")
