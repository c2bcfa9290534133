"""A conversation: what was said, and what the model is sent of it."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial

import orjson

from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    LEAST_MESSAGES,
    Image,
    Message,
    StageEnded,
    ToolCall,
    ViewPolicy,
    build_view,
    size_of,
)
from headgate.first_use import dataclass

TAIL_KEPT = 0.5
"""How much of `max_messages` a cut leaves: the rest is room to grow in, during which the prefix stays."""
LEAST_TAIL = 8
"""A cut leaves this many messages if it may: fewer say little, and are cheap to read again anyway."""
WORTH_CUTTING = 0.5
"""The share of the view that shortening old results must free before the prefix is given up for it.

As much as the view had when it was last built is enough as well: so results that are only a little over the
limit are shortened too, and the server reads no more again than it has read since.
"""


LEAST_CUT = 8_000
"""Less than this is worth it only where it is half of the view."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut that is due: why, and how many characters the view may have afterwards."""

    reason: str
    chars: int


@dataclass
class _Aging:
    """The tool results in a view, and what shortening the older ones would free; each is looked at once."""

    sizes: list[int] = field(default_factory=list)
    _policy: tuple[int, int] = (0, 0)
    _aged: int = 0
    _saving: int = 0

    def saving(self, limit: int, keep_last: int) -> int:
        """How many characters fewer the view had, if all but the last results were cut to the limit."""
        if self._policy != (limit, keep_last):
            self._policy, self._aged, self._saving = (limit, keep_last), 0, 0
        while self._aged < len(self.sizes) - keep_last:
            self._saving += max(self.sizes[self._aged] - limit, 0)
            self._aged += 1
        return self._saving


@dataclass
class _Settled:
    """The beginning of a view that holds the same messages as the transcript does, in their last form.

    It is not built again, so that a compaction point costs what is new, and not the whole conversation.
    """

    count: int = 0
    chars: int = 0
    results: int = 0
    is_stripped: bool = True
    """Whether old reasoning was dropped."""

    def grow(self, messages: Sequence[Message]) -> None:
        self._add(messages, 1)

    def shrink(self, messages: Sequence[Message]) -> None:
        self._add(messages, -1)

    def _add(self, messages: Sequence[Message], sign: int) -> None:
        self.count += sign * len(messages)
        self.chars += sign * size_of(messages)
        self.results += sign * sum(message.role == "tool" for message in messages)


@dataclass
class StageSpan:
    """The messages of one stage in a transcript, until a summary takes their place."""

    path: str
    """Its latest attempt."""
    start: int
    """The first of them, counted in the whole transcript."""
    end: int = 0
    """The first message after them, once the stage has ended."""
    ended: StageEnded | None = None
    """How it ended; None while it is under way."""


@dataclass
class Transcript:
    """`messages` only grows, but for stages that have ended: a summary may take the place of their messages.

    The log keeps those. `view` grows with `messages` and is rebuilt at compaction points.
    """

    messages: list[Message] = field(default_factory=list, init=False)
    _numbers: list[int] = field(default_factory=list, init=False, repr=False)
    """The place of each in the whole transcript; that of the first one which a summary stands for."""
    length: int = field(default=0, init=False)
    """How many messages the whole transcript has."""
    spans: dict[str, StageSpan] = field(default_factory=dict, init=False)
    """Which messages belong to which stage, by place, unless a summary stands for them."""
    has_summaries: bool = field(default=False, init=False)
    has_notice: bool = field(default=False, init=False)
    """The view says what the task, the plan and the files are, since it was last built."""
    coming_images: list[Image] = field(default_factory=list, init=False)
    """Images that the log has named, for the message that comes next."""
    view: list[Message] = field(default_factory=list, init=False)
    view_chars: int = field(default=0, init=False)
    known_tokens: float = field(default=0.0, init=False)
    """What the server counted in the last request, tools included."""
    known_chars: int = field(default=0, init=False)
    """The view's size in that request."""
    cut_to: int = field(default=0, init=False)
    """The view's size after the last cut."""
    built_chars: int = field(default=0, init=False)
    """The view's size when it was last built, the notice about that included."""
    built: int = field(default=0, init=False)
    """How many messages the view had when it was last built, the notice about that included."""
    guides_given: set[str] = field(default_factory=set, init=False)
    """The nested AGENTS.md files that this conversation has been given."""
    results_given: set[str] = field(default_factory=set, init=False)
    """The stages with conversations of their own whose results this conversation has been given."""
    messages_with_lines: dict[int, Message] = field(default_factory=dict, init=False)
    """The latest message that holds a line of a person, by the number of the line."""
    _lasting: list[int] = field(default_factory=list, init=False, repr=False)
    """Where the messages are that every view may need: the system's, and the user's first."""
    _unanswered: set[str] = field(default_factory=set, init=False, repr=False)
    """The calls of the latest reply that have no answer yet."""
    _bounds_due: list[Callable[[], None]] = field(default_factory=list, init=False, repr=False)
    """Bounds between stages that are drawn when they have."""
    _has_user: bool = field(default=False, init=False, repr=False)
    _aging: _Aging = field(default_factory=_Aging, init=False, repr=False, compare=False)
    _settled: _Settled = field(default_factory=_Settled, init=False, repr=False, compare=False)

    def shown_lines(self) -> set[int]:
        """The lines of a person that the view shows whole."""
        if not self.messages_with_lines:
            return set()
        shown = {id(message) for message in self.view}
        return {number for number, message in self.messages_with_lines.items() if id(message) in shown}

    def note_lines(self, numbers: Sequence[int], message: Message) -> None:
        """Takes note of the lines of a person that a message holds."""
        self.messages_with_lines.update(dict.fromkeys(numbers, message))

    def add(self, message: Message) -> None:
        """Appends to both; what came before is not looked at."""
        if message.role == "system" or (message.role == "user" and not self._has_user):
            self._lasting.append(len(self.messages))
        self._has_user = self._has_user or message.role == "user"
        self.messages.append(message)
        self._numbers.append(self.length)
        self.length += 1
        self._show(message)
        if message.role == "assistant":
            self._unanswered = {call.id for call in message.calls}
        elif message.role == "tool":
            self._unanswered.discard(message.call_id)
        while self._bounds_due and not self._unanswered:
            self._bounds_due.pop(0)()

    @property
    def task_number(self) -> int | None:
        """Where the task is in the view, which follows the system prompt; None if nothing was said yet."""
        return next((number for number, message in enumerate(self.view) if message.role == "user"), None)

    def add_notice(self, message: Message) -> None:
        """Adds a message about a cut to the view alone: the next cut adds a new one."""
        self.add_reminder(message)
        self.cut_to = self.view_chars

    def add_reminder(self, message: Message) -> None:
        """Adds a message about stages that were replaced by summaries to the view alone."""
        self._show(message)
        self.built_chars, self.built = self.view_chars, len(self.view)
        self.has_notice = True

    # Stages that share the conversation, and the summaries that take the place of their messages.

    def begin_stage(self, place: str, path: str) -> None:
        """An attempt at a stage starts here. A further attempt goes on with the same span."""
        self._bound(partial(self._begin, place, path))

    def end_stage(self, place: str, ended: StageEnded) -> None:
        """An attempt at a stage has ended here."""
        self._bound(partial(self._end, place, ended))

    def _bound(self, draw: Callable[[], None]) -> None:
        """Draws a bound between stages, behind the answers to all calls of the same reply.

        Otherwise a summary could take the place of a call, and leave its answer.
        """
        if self._unanswered:
            self._bounds_due.append(draw)
        else:
            draw()

    def _begin(self, place: str, path: str) -> None:
        known = self.spans.get(place)
        self.spans[place] = StageSpan(path, known.start if known else self.length)

    def _end(self, place: str, ended: StageEnded) -> None:
        if span := self.spans.get(place):
            span.end, span.ended = self.length, ended

    def said_in(self, span: StageSpan) -> tuple[int, Sequence[Message]]:
        """Where a stage's messages start, and these. The task, which comes first, belongs to no stage."""
        first, last = self._bounds(span)
        start = self._numbers[first] if first < len(self._numbers) else self.length
        return start, self.messages[first:last]

    def has_said(self, span: StageSpan) -> bool:
        """Whether a stage has messages."""
        first, last = self._bounds(span)
        return first < last

    def _bounds(self, span: StageSpan) -> tuple[int, int]:
        """Where a stage's messages are in `messages`."""
        first = bisect_left(self._numbers, span.start)
        behind_task = (index + 1 for index in self._lasting)
        return max(first, *behind_task, 0), bisect_left(self._numbers, span.end)

    def replace(self, place: str, start: int, end: int, summary: str) -> None:
        """Puts a summary in the place of a stage's messages; `rebuild` makes the view follow."""
        first, last = bisect_left(self._numbers, start), bisect_left(self._numbers, end)
        self._settled.shrink(self.view[first : self._settled.count])
        self.messages[first:last], self._numbers[first:last] = [Message("user", summary)], [start]
        self._lasting = [index if index < last else index - (last - first - 1) for index in self._lasting]
        self.spans.pop(place, None)
        self.has_summaries = True

    def measured(self, tokens: int) -> None:
        """Takes note of the server's own count of the view as it was just sent."""
        self.known_tokens, self.known_chars = float(tokens), self.view_chars

    def tokens(self) -> float:
        """About how many tokens the next request has: the server's last count and an estimate of the rest."""
        return self.known_tokens + max(self.view_chars - self.known_chars, 0) / CHARS_PER_CODE_TOKEN

    def due_cut(self, policy: ViewPolicy) -> Cut | None:
        """The cut that the policy asks for before the next request, to be passed to `rebuild`.

        It depends on the view and the policy alone, and looks only at what is new since it was last asked.
        """
        # A view that a cut could not bring below the budget is not cut again before something is added.
        if policy.history == "tail" and len(self.view) > max(policy.max_messages, self.built):
            return Cut("tail", self.view_chars)
        if policy.truncate_chars:
            saving = self._aging.saving(policy.truncate_chars, policy.truncate_keep_last)
            worth = WORTH_CUTTING * self.view_chars
            if saving > min(worth, max(self.built_chars, LEAST_CUT)):
                return Cut("truncate", self.view_chars - saving)
        return None

    def rebuild(self, policy: ViewPolicy, max_chars: int | None = None) -> None:
        """Rebuilds the view. This is a compaction point: the server reads the prompt from its start again.

        A tail that is over its budget is cut to well below it, so that the next cut is some turns away.
        """
        tokens, chars, count = self.tokens(), self.view_chars, len(self.view)
        if policy.history == "tail" and max(len(self.messages), count) > policy.max_messages:
            # A cut to a size is followed by a notice, which is to fit as well.
            most = policy.max_messages - (max_chars is not None)
            kept = max(int(policy.max_messages * TAIL_KEPT), min(LEAST_TAIL, most))
            policy = policy.model_copy(update={"max_messages": kept})
        grows = policy.history == "full" and not policy.truncate_chars and max_chars is None
        if not grows or self._settled.is_stripped != policy.strip_thinking:
            self._settled = _Settled(is_stripped=policy.strip_thinking)
        kept, results = self._settled.count, self._settled.results
        new = self.messages[kept:] if kept else self._relevant(policy)
        built = build_view(new, policy, max_chars)
        self.view = [*self.view[:kept], *built]  # who was sent the one before may keep it
        self.view_chars = self.known_chars = self.built_chars = self._settled.chars + size_of(built)
        self.known_tokens = tokens * self.view_chars / chars if chars else 0.0
        self.built = len(self.view)
        self.has_notice = False
        if max_chars is not None or self.built < count:
            # What a guide said may be among what is gone.
            self.guides_given.clear()
        sizes = [len(message.content) for message in built if message.role == "tool"]
        self._aging = _Aging([*self._aging.sizes[:results], *sizes])
        if grows:
            self._settle(new, built)

    def _settle(self, new: Sequence[Message], built: Sequence[Message]) -> None:
        """Takes note of what will stay as it is: all before the latest exchange, if nothing was left out."""
        if [_key(message) for message in new] != [_key(message) for message in built]:
            return
        begins = (at for at in range(len(new) - 1, -1, -1) if new[at].role == "user" or new[at].calls)
        self._settled.grow(built[: next(begins, 0)])

    def _show(self, message: Message) -> None:
        self.view.append(message)
        self.view_chars += size_of((message,))
        if message.role == "tool":
            self._aging.sizes.append(len(message.content))

    def _relevant(self, policy: ViewPolicy) -> list[Message]:
        """The messages that a view can contain: with a tail, the lasting ones and a bounded end."""
        if policy.history == "full":
            return self.messages
        start, left = len(self.messages), max(policy.max_messages, LEAST_MESSAGES)
        while start and left:
            start -= 1
            left -= self.messages[start].role != "tool"
        lasting = [self.messages[index] for index in self._lasting if index < start]
        return [*lasting, *self.messages[start:]]


def _key(message: Message) -> tuple[str, str, int]:
    return message.role, message.call_id, len(message.calls)


def reply_content(message: Message) -> str:
    """An assistant message as it is kept in the store."""
    kept = {
        "content": message.content,
        "calls": [[call.id, call.name, call.arguments] for call in message.calls],
        "reasoning": message.reasoning,
        "opaque": message.opaque,
    }
    return orjson.dumps({key: value for key, value in kept.items() if value}).decode()


def read_reply(content: str) -> Message:
    """An assistant message as it was kept in the store."""
    kept = orjson.loads(content)
    calls = tuple(ToolCall(*call) for call in kept.get("calls", ()))
    reasoning, opaque = kept.get("reasoning", ""), kept.get("opaque", "")
    return Message("assistant", kept.get("content", ""), calls, reasoning=reasoning, opaque=opaque)


def whole_lines(message: Message) -> Iterator[str]:
    """A message as text, nothing left out."""
    if message.role == "tool":
        yield f"{'failed' if message.failed else 'result'}: {message.content}"
    elif message.role == "assistant":
        yield from (f"thought: {message.reasoning}",) if message.reasoning else ()
        yield from (f"said: {message.content}",) if message.content else ()
        yield from (f"called {call.name} {call.arguments}" for call in message.calls)
    else:
        yield f"told: {message.content}"
