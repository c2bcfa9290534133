"""The prompt at the bottom of the terminal, what is printed above it, and the questions that it asks."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TextIO, cast

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import AnyFormattedText, FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from headgate.cli.interactive.keys import Keyboard, bind_keys
from headgate.cli.interactive.pasted_text import PastedTexts
from headgate.cli.terminal import USUAL_WIDTH, fold_lines, styling_stream, terminal_width
from headgate.control_characters import escape_controls

PROMPT, ASKING = "> ", "? "
MENU_ROWS, USUAL_ROWS = 8, 24
STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "question": "bold",
        "status": "noreverse ansicyan",
        "more": "noreverse fg:default",
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
Fragments = list[tuple[str, str]]
"""Pieces of one line, each with its style."""


@dataclass
class Question:
    """Something that a person has to answer before the next thing happens."""

    text: str
    answers: Mapping[str, str]
    """What may be typed, and what it stands for."""
    default: str
    """What a press of Ctrl-C stands for."""
    answered: "asyncio.Future[str]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def take(self, typed: str) -> bool:
        """Answers it, if what was typed is an answer."""
        answer = self.answers.get(typed.strip().lower())
        if answer is None or self.answered.done():
            return False
        self.answered.set_result(answer)
        return True

    def dismiss(self) -> None:
        if not self.answered.done():
            self.answered.set_result(self.default)


class Screen(Keyboard):
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
        self.question: Question | None = None
        self._asking = asyncio.Lock()
        self._put_aside = ""
        """What was being typed when a question came."""
        self._status, self._on_interrupt = status, on_interrupt
        is_naming = Condition(lambda: names_something(self.buffer.document.text_before_cursor))
        self.buffer = Buffer(
            history=history, completer=completer, complete_while_typing=is_naming, multiline=True
        )
        self.output = open_output(sys.stdout)
        search = SearchToolbar(text_if_not_searching="")
        self.app: Application[None] = Application(
            layout=self._lay_out(search),
            key_bindings=bind_keys(self, has_focus(self.buffer)),
            style=STYLE,
            include_default_pygments_style=False,
            input=create_input(sys.stdin),
            output=self.output,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = 0.05

    def _lay_out(self, search: SearchToolbar) -> Layout:
        prompt = Window(
            BufferControl(self.buffer, search_buffer_control=search.control, preview_search=True),
            get_line_prefix=self._prefix,
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(min=1),
        )
        asked = Window(
            FormattedTextControl(lambda: [("class:question", self.question.text if self.question else "")]),
            wrap_lines=True,
            dont_extend_height=True,
        )
        status = Window(
            FormattedTextControl(self._status_fragments), dont_extend_height=True, height=Dimension(min=0)
        )
        room = Window(height=Dimension(min=0, preferred=MENU_ROWS))
        is_asking = Condition(lambda: self.question is not None)
        is_completing = Condition(lambda: self.buffer.complete_state is not None)
        body = HSplit(
            [
                ConditionalContainer(asked, is_asking),
                prompt,
                search,
                ConditionalContainer(room, is_completing),
                status,
            ]
        )
        menu = CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1)
        floats = [Float(xcursor=True, ycursor=True, content=menu)]
        return Layout(FloatContainer(body, floats), focused_element=self.buffer)

    def _prefix(self, line: int, wrapped: int) -> AnyFormattedText:
        if line or wrapped:
            return "  "
        return [("class:prompt", ASKING if self.question else PROMPT)]

    def _status_fragments(self) -> FormattedText:
        if self.app.is_done:
            return FormattedText()
        columns = self.width - 1
        lines = [(style, escape_controls(text)[:columns]) for style, text in self._status(columns)]
        joined: Fragments = []
        for style, text in lines:
            joined += [("", "\n")] if joined else []
            joined.append((style, text))
        return FormattedText(joined)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.output.get_size().columns

    async def run(self) -> None:
        """Shows the prompt until `close`. EOFError when the terminal is gone."""
        await self.app.run_async(handle_sigint=False, set_exception_handler=False)

    def close(self) -> None:
        """Gives the terminal back."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def abandon(self) -> None:
        """Ends the prompt without a word: its terminal is gone."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit(exception=EOFError)

    def refresh(self) -> None:
        """Draws the prompt and the status again."""
        self.app.invalidate()

    # What is printed.

    def show(self, text: str, style: str = "", *, hanging: int | None = 2) -> None:
        """Prints text above the prompt, broken at words. `hanging` is as for `fold_lines`."""
        for line in text.split("\n"):
            folded = fold_lines(escape_controls(line), self.width, hanging)
            self.show_fragments([(style, folded)])

    def show_whole(self, line: str, style: str = "") -> None:
        """Prints a line as it is, such as one of a diff: where it is too long, the terminal breaks it."""
        self.show_fragments([(style, escape_controls(line))])

    def show_fragments(self, line: Fragments) -> None:
        """Prints a line of several styles, which fits and holds no control characters.

        The terminal stays as it is for typing: keys that are pressed meanwhile keep their meaning.
        """
        is_drawn = self.app.is_running and not self.app.is_done
        if is_drawn:
            self.app.renderer.erase(leave_alternate_screen=False)
        print_formatted_text(self.output, FormattedText([*line, ("", "\n")]), STYLE)
        if is_drawn:
            self.app.invalidate()

    def clear(self) -> None:
        """Empties the window. What has left it at its top stays."""
        self.app.renderer.clear()
        self.refresh()

    # What is asked.

    async def ask(self, text: str, answers: Mapping[str, str], default: str) -> str:
        """Asks, one question at a time, and waits. What was being typed comes back afterwards."""
        async with self._asking:
            question = Question(text, answers, default)
            self._put_aside = self.buffer.text
            self.buffer.reset()
            self.question = question
            self.refresh()
            try:
                return await question.answered
            finally:
                self.question = None
                if not self.buffer.text:
                    self.buffer.insert_text(self._put_aside)
                self._put_aside = ""
                self.refresh()

    # What is typed.

    def accept(self) -> None:
        """Takes what is in the prompt: the answer to a question, or a line."""
        typed = self.buffer.text
        if self.question:
            self.buffer.reset()
            self.show(f"{self.question.text}{typed}", "class:dim")
            self.question.take(typed)
            return
        if not typed.strip():
            self.buffer.reset()
            return
        self.buffer.reset(append_to_history=True)
        first, *others = escape_controls(typed).split("\n")
        self.show_fragments([("class:prompt", PROMPT), ("", first)])
        for line in others:
            self.show_fragments([("", f"  {line}")])
        self.lines.put_nowait(typed)

    def give_back(self, text: str) -> None:
        """Puts a line that could not be used into the prompt again, unless something else is there."""
        if not self.buffer.text:
            self.buffer.insert_text(self.pasted.shorten(text))

    def interrupt(self) -> None:
        self._on_interrupt()

    def end(self) -> None:
        if self.question:
            self.question.dismiss()
        else:
            self.lines.put_nowait(None)


def names_something(text: str) -> bool:
    """Whether what stands before the cursor is a command's name, or a file that is mentioned."""
    word = text.replace("\n", " ").rpartition(" ")[2]
    return word.startswith("@") or (text.startswith("/") and "\n" not in text)


def open_output(stream: IO[str]) -> Output:
    """The terminal behind a stream, for Headgate's own styles. It is not asked where its cursor is.

    An answer to that could be lost in what is typed, and nothing here needs it.
    """
    own = styling_stream(stream)

    def size() -> Size:
        try:
            rows = os.get_terminal_size(own.fileno()).lines
        except OSError:
            rows = 0
        return Size(rows=rows or USUAL_ROWS, columns=terminal_width(own) or USUAL_WIDTH)

    return Vt100_Output(cast(TextIO, own), size, term=os.environ.get("TERM"), enable_cpr=False)
