"""Telling a reply that will not end from one that is merely long, while it arrives."""

from headgate.core import CHARS_PER_TOKEN
from headgate.errors import ReplyInvalid

MAX_CHARACTERS = 400_000
"""Of text, reasoning and arguments together."""
WINDOW = 6_000
"""How much of a reply must be nothing but one piece repeated."""
LONGEST_PIECE = 400
_CHECK_EVERY = 2_000


class EndlessWatch:
    """Sees every piece of a reply once and raises ReplyInvalid when it has seen enough."""

    def __init__(self) -> None:
        self._total = 0
        self._tail = ""
        self._fresh: list[str] = []
        self._fresh_size = 0

    def see(self, *pieces: str) -> None:
        """Takes what has just arrived."""
        for piece in pieces:
            self._fresh.append(piece)
            self._fresh_size += len(piece)
        if self._fresh_size >= _CHECK_EVERY:
            self._check()

    def _check(self) -> None:
        self._total += self._fresh_size
        if self._total > MAX_CHARACTERS:
            raise self._cut_off(f"The reply was longer than {MAX_CHARACTERS:,} characters and was cut off.")
        self._tail = "".join((self._tail, *self._fresh))[-WINDOW:]
        self._fresh.clear()
        self._fresh_size = 0
        if len(self._tail) == WINDOW and repeats_itself(self._tail):
            raise self._cut_off("The reply repeated itself endlessly and was cut off.")

    def _cut_off(self, reason: str) -> ReplyInvalid:
        error = ReplyInvalid(reason)
        error.tokens = (0, self._total // CHARS_PER_TOKEN, 0)
        return error


def repeats_itself(text: str) -> bool:
    """Whether the whole text is one piece of at most LONGEST_PIECE characters over and over."""
    # A text that repeats a piece has its own end once more that piece earlier.
    end = text[-LONGEST_PIECE:]
    before = text.rfind(end, 0, len(text) - 1)
    period = len(text) - LONGEST_PIECE - before
    return before >= 0 and period <= LONGEST_PIECE and text[period:] == text[:-period]
