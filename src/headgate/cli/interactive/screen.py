"""The prompt at the bottom of the terminal, what is printed above it, and the questions that it asks."""

import asyncio
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from rich.text import Text

from headgate.cli.interactive.typed_lines import MARK, PastedTexts, goes_on, join_lines
from headgate.cli.live import ShownTask, console_for
from headgate.cli.printing import printable
from headgate.cli.terminal import fold_lines, styling_stream
from headgate.control_characters import escape_controls
from headgate.log import Bus

PROMPT, ASKING = "> ", "? "
YES_OR_NO = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "": "no"}
FRAMES, MOST_SAID = "|/-\\", 2
"""What turns while a task runs, and how many lines of what is said are shown."""
TICK = 0.2
"""Seconds after which the lines below the prompt are drawn again."""
STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "bottom-toolbar": "noreverse",
        "status": "ansicyan",
        "dim": "fg:ansibrightblack",
        # Colours of the terminal's own theme, so that it can be read on dark and on light.
        "completion-menu": "noreverse bg:default fg:default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
        "completion-menu.meta.completion.current": "reverse",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
)


class Screen:
    """Owns the terminal while the interactive mode runs. Whatever is printed goes through `show`.

    Nothing that it shows can steer the terminal: control characters are written out.
    """

    def __init__(
        self,
        history: History,
        completer: Completer,
        status: Callable[[int], Sequence[tuple[str, str]]],
        on_interrupt: Callable[[], None],
    ) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        """What was typed, with the names of what was pasted; None when the person wants to quit."""
        self.pasted = PastedTexts()
        self._asking = asyncio.Lock()
        self._question, self._answers = "", dict[str, str]()
        self._answered: asyncio.Future[str] | None = None
        """What becomes the answer to the question; None while nothing is asked."""
        self._status, self._on_interrupt = status, on_interrupt
        self._console = console_for(sys.stdout)
        is_naming = Condition(lambda: names_something(self.buffer.document.text_before_cursor))
        self._session: PromptSession[None] = PromptSession(
            self._message,
            multiline=True,
            complete_while_typing=is_naming,
            enable_suspend=True,
            completer=completer,
            history=history,
            style=STYLE,
            include_default_pygments_style=False,
            bottom_toolbar=self._toolbar,
            key_bindings=self._bind_keys(),
            erase_when_done=True,
            input=create_input(sys.stdin),
            output=PromptOutput.from_pty(cast(TextIO, styling_stream(sys.stdout))),
        )
        self.buffer, self._app = self._session.default_buffer, self._session.app
        self._app.ttimeoutlen = 0.05

    def _message(self) -> StyleAndTextTuples:
        if self._answered is None:
            return [("class:prompt", PROMPT)]
        return [("class:prompt", f"{fold_lines(self._question, self.width - 1)}\n{ASKING}")]

    def _toolbar(self) -> StyleAndTextTuples:
        columns = self.width - 1
        pieces: StyleAndTextTuples = []
        for style, text in self._status(columns):
            pieces += [("", "\n" * bool(pieces)), (style, escape_controls(text)[:columns])]
        return pieces

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self._console.width

    async def run(self) -> None:
        """Shows the prompt until `close`. EOFError when the terminal is gone."""
        await self._session.prompt_async(handle_sigint=False, set_exception_handler=False)

    async def keep_fresh(self) -> None:
        """Draws the lines below the prompt again and again, while something runs that they are about."""
        while True:
            await asyncio.sleep(TICK)
            self._app.invalidate()

    @property
    def is_shown(self) -> bool:
        """Whether the prompt is on the terminal."""
        return self._app.is_running and not self._app.is_done

    def close(self) -> None:
        """Gives the terminal back."""
        if self.is_shown:
            self._app.exit()

    def abandon(self) -> None:
        """Ends the prompt without a word: its terminal is gone."""
        if self.is_shown:
            self._app.exit(exception=EOFError)

    # What is printed.

    def show(self, text: str, style: str = "", *, hanging: int | None = 2) -> None:
        """Prints text above the prompt, broken at words. `hanging` is as for `fold_lines`."""
        for line in text.split("\n"):
            self.print(Text(fold_lines(escape_controls(line), self.width, hanging), style))

    def show_whole(self, line: str, style: str = "") -> None:
        """Prints a line as it is, such as one of a diff: where it is too long, the terminal breaks it."""
        self.print(Text(escape_controls(line), style))

    def print(self, text: Text) -> None:
        """Prints text that fits and holds no control characters.

        The library's `patch_stdout` gives the terminal back for a moment, in which a Ctrl-D is lost, and
        it would let whatever is printed anywhere steer the terminal.
        """
        if self.is_shown:
            self._app.renderer.erase(leave_alternate_screen=False)
        self._console.print(text)
        if self.is_shown:
            self._app.invalidate()

    def clear(self) -> None:
        """Empties the window. What has left it at its top stays."""
        self._app.renderer.clear()
        self._app.invalidate()

    # What is asked.

    async def ask(self, text: str, answers: Mapping[str, str]) -> str:
        """Asks, one question at a time, and waits. What was being typed comes back afterwards.

        `answers` has what may be typed, and what it stands for; nothing stands for Ctrl-C, too.
        """
        async with self._asking:
            put_aside = self.buffer.text
            self.buffer.reset()
            self._question, self._answers = escape_controls(text), dict(answers)
            self._answered = asyncio.get_running_loop().create_future()
            self._app.invalidate()
            try:
                return await self._answered
            finally:
                self._answered = None
                if not self.buffer.text:
                    self.buffer.insert_text(put_aside)
                self._app.invalidate()

    def dismiss(self) -> bool:
        """Answers the question that is asked as Enter alone does; False if there is none."""
        return self._answer("")

    def _answer(self, typed: str) -> bool:
        if self._answered is None:
            return False
        answer = self._answers.get(typed.strip().lower())
        if answer is not None and not self._answered.done():
            self._answered.set_result(answer)
        return True

    # What is typed.

    def _accept(self) -> None:
        """Takes what is in the prompt: the answer to a question, or a line."""
        typed = self.buffer.text
        is_line = self._answered is None and bool(typed.strip())
        self.buffer.reset(append_to_history=is_line)
        if is_line:
            self.print(Text.assemble((PROMPT, "bold"), escape_controls(typed).replace("\n", "\n  ")))
            self.lines.put_nowait(typed)
        elif self._answered:
            self.show(f"{self._question}{typed}", "dim")
            self._answer(typed)

    def give_back(self, text: str) -> None:
        """Puts a line that could not be used into the prompt again, unless something else is there."""
        if not self.buffer.text:
            self.buffer.insert_text(self.pasted.shorten(text))

    def _bind_keys(self) -> KeyBindings:
        """What the keys do that are special here; all others do what they do in a shell."""
        keys, in_prompt = KeyBindings(), has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=in_prompt)
        def _(event: KeyPressEvent) -> None:
            buffer = self.buffer
            if buffer.complete_state and buffer.complete_state.current_completion:
                buffer.complete_state = None
                if not buffer.text.startswith(MARK):
                    return  # a file was chosen, and the sentence goes on
            if buffer.cursor_position == len(buffer.text) and goes_on(buffer.text):
                buffer.document = Document(join_lines(buffer.text))
            else:
                self._accept()

        @keys.add("tab", filter=in_prompt)
        def _(event: KeyPressEvent) -> None:
            # What the library does with Tab is lost while it looks for completions of the keys before.
            buffer = self.buffer
            if buffer.complete_state:
                buffer.complete_next()
                return
            asked = CompleteEvent(completion_requested=True)
            found = list(buffer.completer.get_completions(buffer.document, asked))
            if len(found) == 1:
                buffer.apply_completion(found[0])
            elif common := get_common_complete_suffix(buffer.document, found):
                buffer.insert_text(common)
            else:
                buffer.start_completion()

        @keys.add("escape", "enter", filter=in_prompt)
        def _(event: KeyPressEvent) -> None:
            self.buffer.newline(copy_margin=False)

        @keys.add("c-c", filter=in_prompt, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._on_interrupt()

        @keys.add("c-d", filter=in_prompt)
        def _(event: KeyPressEvent) -> None:
            if self.buffer.text:
                self.buffer.delete()
            elif not self.dismiss():
                self.lines.put_nowait(None)

        @keys.add(Keys.BracketedPaste, filter=in_prompt)
        def _(event: KeyPressEvent) -> None:
            self.buffer.insert_text(self.pasted.shorten(event.data))

        return keys


class TaskView(ShownTask):
    """A task on the screen: lines above the prompt, and its standing below it."""

    def __init__(self, bus: Bus, screen: Screen) -> None:
        super().__init__(bus)
        self._screen = screen
        self._frames = itertools.cycle(FRAMES)

    @property
    def columns(self) -> int:
        return self._screen.width

    def print(self, text: Text) -> None:
        self._screen.print(text)

    def status(self, width: int) -> Sequence[tuple[str, str]]:
        """What is being done now, how long, how many tokens, and the last lines of what is said."""
        first = f"{next(self._frames)} {self.head(width - 2)}"
        said = self.activity.lines[-MOST_SAID:]
        return [("class:status", first), *(("class:dim", f"  {printable(line)}") for line in said)]


class PromptOutput(Vt100_Output):
    """A terminal that is not asked where its cursor is: the answer could be lost in what is typed."""

    def get_rows_below_cursor_position(self) -> int:
        """The row of the cursor is there in any case."""
        return 1


def names_something(text: str) -> bool:
    """Whether what stands before the cursor is a command's name, or a file that is mentioned."""
    word = text.replace("\n", " ").rpartition(" ")[2]
    return word.startswith("@") or (text.startswith("/") and "\n" not in text)
