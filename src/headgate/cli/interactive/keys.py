"""What the keys do that are special here; all others do what they do in a shell."""

from typing import Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from headgate.cli.interactive.pasted_text import PastedTexts
from headgate.cli.interactive.typed_lines import MARK, goes_on, join_lines


class Keyboard(Protocol):
    """Who hears of the keys."""

    buffer: Buffer
    pasted: PastedTexts

    def accept(self) -> None:
        """Enter, at the end of what was typed."""

    def interrupt(self) -> None:
        """Ctrl-C."""

    def end(self) -> None:
        """Ctrl-D in an empty prompt."""


def bind_keys(board: Keyboard, in_prompt: Filter) -> KeyBindings:
    """The special keys. `in_prompt` holds while the prompt has them, and not the search in the history."""
    keys = KeyBindings()

    @keys.add("enter", filter=in_prompt)
    def _(event: KeyPressEvent) -> None:
        buffer = board.buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
            if not buffer.text.startswith(MARK):
                return  # a file was chosen, and the sentence goes on
        text = buffer.text
        if buffer.cursor_position == len(text) and goes_on(text):
            buffer.document = Document(join_lines(text))
        else:
            board.accept()

    @keys.add("tab", filter=in_prompt)
    def _(event: KeyPressEvent) -> None:
        # What the library does with Tab is lost while it looks for completions of the keys before.
        buffer = board.buffer
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
        board.buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=in_prompt, eager=True)
    def _(event: KeyPressEvent) -> None:
        board.interrupt()

    @keys.add("c-d", filter=in_prompt)
    def _(event: KeyPressEvent) -> None:
        if board.buffer.text:
            board.buffer.delete()
        else:
            board.end()

    @keys.add(Keys.BracketedPaste, filter=in_prompt)
    def _(event: KeyPressEvent) -> None:
        board.buffer.insert_text(board.pasted.shorten(event.data))

    @keys.add("c-z", filter=in_prompt)
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("c-l")
    def _(event: KeyPressEvent) -> None:
        get_app().renderer.clear()

    return keys
