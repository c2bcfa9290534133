"""The live feed: what happens, for any number of clients, as server-sent events.

A client is a number: that of the last event that it has. Nothing is queued for it. What is new is read from
the log and encoded once, whoever committed it, and kept for a while; a client that is further behind reads on
in the log. So a slow client holds up nobody, costs no memory, and loses nothing.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Any

import orjson

from headgate.core import FINAL_STATES, Event, Line, Pulse, State, TaskResumed, TaskStarted, fold
from headgate.engine import Activity
from headgate.first_use import dataclass
from headgate.log import Bus, Store, find_pause

POLL_SECONDS = 0.1
"""How often to look for what other processes have committed. This process's own events come at once."""
KEPT = 2_000
"""Events that are kept ready to be sent."""
PAGE = 100
"""Events that are read from the log at a time, so that a long log keeps nobody waiting."""
HEARTBEAT_SECONDS = 15.0
ACTIVITY_SECONDS = 0.25
HEARTBEAT = b": still here\n\n"
_RETRY = b"retry: 1000\n\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """An event as it is sent: to those who want milestones, and to those who want everything."""

    seq: int
    task: str
    at: float
    brief: bytes
    """Empty for what is no milestone."""
    full: bytes


@dataclass
class Narrator:
    """Says events in words, which takes the state of each task after each event."""

    store: Store
    _states: dict[str, State] = field(default_factory=dict)

    def line(self, event: Event) -> Line | None:
        """Takes the next event of a task; the line about it if it is a milestone.

        Events before the first one that it is given are looked up.
        """
        state = self._states.get(event.task)
        if state is None:
            state = self._states[event.task] = fold(self.store.events(event.task, before=event.seq))
            row = self.store.task(event.task)
            state.tries_again = row.task.resumes if row else ""
        state.apply(event)
        line = event.line(state)
        if state.status in FINAL_STATES:
            del self._states[event.task]
        return None if line is None or line.is_detail else line

    def entry(self, event: Event) -> Entry:
        """Takes the next event of a task."""
        line = self.line(event)
        told = {**event.as_json(), "text": line and line.text}
        brief = {name: told[name] for name in ("seq", "task", "path", "turn", "at", "kind", "text")}
        return Entry(
            event.seq,
            event.task,
            event.at,
            frame("milestone", brief, event.seq) if line else b"",
            frame("milestone" if line else "event", told, event.seq),
        )

    def state(self, task: str) -> State | None:
        """The state of a task that has not ended, after the latest event that was taken."""
        return self._states.get(task)


def frame(name: str, data: Any, seq: int | None = None) -> bytes:
    """One message of an event stream. Only events of the log have an id: a client goes on after the last."""
    head = f"id: {seq}\n" if seq is not None else ""
    # JSON has no line breaks of its own, so nothing in it can end the message or begin another field.
    return f"{head}event: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


@dataclass
class Standing:
    """Something that streams show as it is now: the queue, or what is being done. The latest counts."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    frame: bytes = b""
    number: int = 0

    def show(self, data: dict[str, Any]) -> bool:
        """Takes what is to be shown from now on; whether that is new."""
        made = frame(self.name, data)
        if made == self.frame:
            return False
        self.data, self.frame, self.number = data, made, self.number + 1
        return True


class Feed:
    """Reads what is new, and lets clients follow it."""

    def __init__(self, store: Store, bus: Bus, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now
        self._narrator = Narrator(store)
        self._recent: list[Entry] = []
        self._last = self._floor = store.last_seq()
        """The last event that was read, and the last one that is no longer kept."""
        self._news: asyncio.Event = asyncio.Event()
        self._wake = asyncio.Event()
        self._closed = False
        self._version: tuple[int, int] | None = None
        self._activity, self._activity_at = Activity(), 0.0
        self._queue = Standing("queue")
        self._doing = Standing("activity", {"task": None, "text": "", "lines": []})
        self.heartbeat_seconds = HEARTBEAT_SECONDS
        self.clients = 0
        self.on_sent: Callable[[float], None] = lambda seconds: None
        """Called with the age of the latest event, whenever some were sent."""
        self.on_event: Callable[[Event], None] = lambda event: None
        """Called with each event that is new, whichever process committed it."""
        bus.on_event.append(self._hear)
        bus.on_pulse.append(self._hear_pulse)

    # What is new.

    async def run(self, on_crash: Callable[[Exception], None] = lambda bug: None) -> None:
        """Reads what is new until the feed is closed. `on_crash` is told once of what is in the way."""
        said = ""
        while not self._closed:
            try:
                self.catch_up()
                said = ""
            except Exception as error:  # noqa: BLE001 - told; the next try may succeed
                self._version = None
                if (now_said := f"{type(error).__name__}: {error}") != said:
                    said = now_said
                    on_crash(error)
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def wake(self) -> None:
        """Something has changed that this process has done."""
        self._version = None
        self._wake.set()

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        self._wake.set()
        self._tell()

    def catch_up(self) -> None:
        """Reads what was committed since the last time."""
        self._wake.clear()
        version = self._store.version()
        if version == self._version:
            if self._describe_activity():
                self._tell()
            return
        self._version = version
        changed = False
        while events := self._store.events(after=self._last, most=PAGE):
            for event in events:
                self._recent.append(self._narrator.entry(event))
                self._last, changed = event.seq, True
                if isinstance(event.body, TaskStarted | TaskResumed):
                    self._activity = Activity()  # what went before was another task's, or another process's
                self._activity.hear(event)
                self.on_event(event)
        if len(self._recent) > 2 * KEPT:
            self._floor = self._recent[-KEPT - 1].seq
            del self._recent[:-KEPT]
        if self._queue.show(describe_queue(self._store)) or changed:
            self._describe_activity()
            self._tell()

    def _hear(self, event: Event) -> None:
        """An execution in this process has committed something."""
        self.wake()

    def _hear_pulse(self, pulse: Pulse) -> None:
        self._activity.hear_pulse(pulse)
        if self._describe_activity():
            self._tell()

    def _describe_activity(self) -> bool:
        """Describes again what the model is doing, but not for every piece of a reply."""
        if self._now() - self._activity_at < ACTIVITY_SECONDS:
            return False
        running = self._queue.data.get("running")
        state = self._narrator.state(running) if running else None
        text = self._activity.describe(state) if state else ""
        lines = self._activity.lines if state else []
        # Pieces of what models and commands write may be no text on their own.
        lines = [line.encode("utf-8", "replace").decode() for line in lines]
        self._activity_at = self._now()
        return self._doing.show({"task": running, "text": text, "lines": lines})

    @property
    def activity(self) -> dict[str, Any]:
        """What the running task is doing, in words."""
        return self._doing.data

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # One client.

    async def stream(
        self, task: str | None = None, after: int | None = None, *, detail: bool = False
    ) -> AsyncIterator[bytes]:
        """What happens from now on, or after an event; for one task, or for all. It ends with the feed."""
        cursor = self._last if after is None else after
        behind = Narrator(self._store)
        shown = {"queue": -1, "activity": -1}
        sent_at = time.monotonic()
        self.clients += 1
        try:
            yield _RETRY
            while not self._closed:
                news, piece, latest = self._news, b"", 0.0
                if cursor < self._last:
                    if cursor >= self._floor:
                        behind = Narrator(self._store)  # what it knows is not needed, or old when it is
                    entries = self._entries_after(cursor, task, behind)
                    wanted = [entry for entry in entries if task in (None, entry.task)]
                    piece = b"".join(entry.full if detail else entry.brief for entry in wanted)
                    latest = wanted[-1].at if piece else 0.0
                    # Events of other tasks, and of what was cancelled in the queue, leave gaps.
                    cursor = entries[-1].seq if entries else self._last
                if cursor >= self._last:
                    for standing in (self._queue, self._doing):
                        if shown[standing.name] != standing.number:
                            shown[standing.name], piece = standing.number, piece + standing.frame
                # One piece for all that is new: sending it costs as much as a thousand bytes of it.
                if piece:
                    yield piece
                    sent_at = time.monotonic()
                    if latest:
                        self.on_sent(self._now() - latest)
                if cursor < self._last or news is not self._news:
                    await asyncio.sleep(0)  # there is more, but others want their turn
                    continue
                try:
                    # News may be of no interest to this client, and proxies end what is silent for long.
                    async with asyncio.timeout(sent_at + self.heartbeat_seconds - time.monotonic()):
                        await news.wait()
                except TimeoutError:
                    yield HEARTBEAT
                    sent_at = time.monotonic()
        finally:
            self.clients -= 1

    def _entries_after(self, cursor: int, task: str | None, behind: Narrator) -> Sequence[Entry]:
        """What comes next for a client: what is kept, or else what the log has."""
        if cursor >= self._floor:
            start = bisect_right(self._recent, cursor, key=attrgetter("seq"))
            return self._recent[start : start + PAGE]
        found = self._store.events(task, after=cursor, most=PAGE)
        return [behind.entry(event) for event in found if event.seq <= self._last]


def describe_queue(store: Store) -> dict[str, Any]:
    """What waits and runs, in order, and why nothing does if the queue is paused."""
    rows, pause = store.unsettled(), find_pause(store)
    return {
        "running": next((name for name, state in rows if state == "RUNNING"), None),
        "queued": [name for name, state in rows if state == "QUEUED"],
        "proposed": [name for name, state in rows if state == "PROPOSED"],
        "paused": pause.sentence() if pause else None,
    }
