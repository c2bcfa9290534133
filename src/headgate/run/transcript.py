"""A conversation: everything that was said, and what the model is sent of it."""

from dataclasses import dataclass, field

import orjson

from headgate.core.flow import ViewPolicy
from headgate.core.messages import Message
from headgate.core.view import build_view, size_of

CHARS_PER_TOKEN = 3.5
"""A cautious guess for code, used for what no server has counted yet."""


@dataclass
class Transcript:
    """`messages` only grows. `view` grows with it and is built anew at compaction points."""

    messages: list[Message] = field(default_factory=list)
    view: list[Message] = field(default_factory=list)
    view_chars: int = 0
    known_tokens: float = 0.0
    """What the server counted in the last request, tools included."""
    known_chars: int = 0
    """The view's size in that request."""
    cut_to: int = 0
    """The view's size after the last cut."""
    guides_given: set[str] = field(default_factory=set)
    """The nested AGENTS.md files that this conversation has been given."""

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.view.append(message)
        self.view_chars += size_of((message,))

    def add_notice(self, message: Message) -> None:
        """Adds a message about a cut to the view alone: the next cut brings a new one."""
        self.view.append(message)
        self.view_chars += size_of((message,))
        self.cut_to = self.view_chars

    def measured(self, tokens: int) -> None:
        """Takes note of the server's own count of the view as it was just sent."""
        self.known_tokens, self.known_chars = float(tokens), self.view_chars

    def tokens(self) -> float:
        """About how many tokens the next request has: the server's last count and an estimate of the rest."""
        return self.known_tokens + max(self.view_chars - self.known_chars, 0) / CHARS_PER_TOKEN

    def rebuild(self, policy: ViewPolicy, max_chars: int | None = None) -> None:
        """Builds the view anew: a compaction point, after which the server reads the prompt afresh."""
        if max_chars is not None:
            self.guides_given.clear()
        tokens, chars = self.tokens(), self.view_chars
        self.view = build_view(self.messages, policy, max_chars)
        self.view_chars = self.known_chars = size_of(self.view)
        self.known_tokens = tokens * self.view_chars / chars if chars else 0.0


def reply_content(message: Message) -> str:
    """An assistant message as it is kept in the store."""
    kept = {
        "content": message.content,
        "calls": [[call.id, call.name, call.arguments] for call in message.calls],
        "reasoning": message.reasoning,
        "opaque": message.opaque,
    }
    return orjson.dumps({key: value for key, value in kept.items() if value}).decode()
