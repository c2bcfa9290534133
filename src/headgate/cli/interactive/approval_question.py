"""The question before a command runs or a file is written, asked in the prompt."""

import asyncio

from headgate.cli.approval import ANSWERS, describe, question_for
from headgate.cli.interactive.screen import Screen
from headgate.core import Access
from headgate.guard import Answer


class PromptApproval:
    """Asks in the prompt. It is called in the thread of a tool, and waits there for the answer.

    What was being typed for the model is put aside, so that it answers nothing by chance.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._loop = asyncio.get_running_loop()
        self._asked: asyncio.Task[str] | None = None
        self._is_abandoned = False

    def begin(self) -> None:
        """A task begins: its questions are to be asked."""
        self._is_abandoned = False

    def abandon(self) -> None:
        """Answers the question that waits, and all others of this task, with no: it is being cancelled."""
        self._is_abandoned = True
        if self._asked:
            self._asked.cancel()

    def __call__(self, access: Access) -> Answer:
        return asyncio.run_coroutine_threadsafe(self._ask(access), self._loop).result()

    async def _ask(self, access: Access) -> Answer:
        if self._is_abandoned:
            return "no"
        first, *lines = describe(access)
        self._screen.show(first, "bold")
        for line in lines:
            self._screen.show(line, hanging=4)
        self._asked = asyncio.create_task(
            self._screen.ask(question_for(access), {typed: typed for typed in ANSWERS}, "no")
        )
        try:
            return ANSWERS[await self._asked]
        except asyncio.CancelledError:
            return "no"
        finally:
            self._asked = None
