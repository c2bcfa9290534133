"""gpt-oss: messages with channels. Calls go to `functions.NAME`, thinking to the channel `analysis`."""

import re

from headgate.models.textcalls.pieces import MESSAGES_READ, Piece
from headgate.models.textcalls.result import Attempt
from headgate.models.textcalls.shapes import read_arguments
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.toolbook import ToolBook, read_properties

_START = re.compile(r"\s{0,16}+(?:<\|start\|>assistant)?\s{0,4}+(?:to=[\w.\-]{1,128}+\s{0,4}+)?<\|channel\|>")
_MESSAGE = "<|message|>"
_END = re.compile(r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)")
_RECIPIENT = re.compile(r"\bto=([\w.\-]{1,128})")
_CHANNEL = re.compile(r"<\|channel\|>(\w{1,32})")
_NOBODY = {"assistant", "user", "final", "analysis", "commentary"}


class Harmony:
    """Reads whole replies of gpt-oss."""

    name = "harmony"
    sample = '<|channel|>commentary to=functions.ls<|message|>{"path": "."}'
    models = "gpt-oss"
    whole_batch = False

    def claims(self, text: str, hinted: bool) -> bool:
        """Whether a reply begins with a channel."""
        return _START.match(text) is not None

    def read(self, source: Source, book: ToolBook) -> list[Piece]:
        """The messages of a reply."""
        pieces: list[Piece] = []
        position, text = 0, source.text
        while len(pieces) < MESSAGES_READ and (begin := source.find(_MESSAGE, position)) >= 0:
            header = text[position:begin]
            start = begin + len(_MESSAGE)
            end = source.search(_END, start)
            body = text[start : end.start()] if end else text[start:]
            piece_end = end.end() if end else len(text)
            pieces.append(
                self._read_message(header[-600:], body, text[position:piece_end], book, end is None)
            )
            position = piece_end
        rest = text[position:]
        if rest.strip() and not pieces:
            pieces.append(Piece("content", rest))
        return pieces

    def _read_message(self, header: str, body: str, whole: str, book: ToolBook, last: bool) -> Piece:
        recipients = [name for name in _RECIPIENT.findall(header) if name not in _NOBODY]
        channels = _CHANNEL.findall(header)
        if recipients:
            return Piece("calls", whole, (self._read_call(recipients[-1], body, book, last),))
        if channels and channels[-1] == "analysis":
            return Piece("reasoning", body)
        return Piece("content", body)

    def _read_call(self, name: str, body: str, book: ToolBook, last: bool) -> Attempt:
        value = Source(body).json_at(0) if body.startswith("{") else None
        value = value or Source(body.strip()).json_at(0)
        if value and value.cut:
            value = value if last else None
            if value:
                return Attempt(name, None, "", "cut_off")
        arguments = read_arguments(value.value) if value else None
        if arguments is not None:
            return Attempt(name, arguments)
        # Tools that take code, such as `python`, are sent the code itself.
        names = list(read_properties(book.root(name)))
        if len(names) == 1 and body.strip() and not body.lstrip().startswith("{"):
            return Attempt(name, {names[0]: body})
        return Attempt(name, None, "", "unreadable")
