"""Figures for Prometheus at `/metrics`: read from the store, and counted from the events that come by."""

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headgate.core import Event, ReplyReceived, TaskState, VerifyFinished
from headgate.log import Store
from headgate.server.feed import Feed

_DELAYS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """How things stand now, and what the feed has heard from the server's start on."""

    def __init__(self, store: Store, feed: Feed) -> None:
        self._store, self._feed = store, feed
        own = self._registry = CollectorRegistry()
        self._tasks = Gauge("headgate_tasks", "Tasks by state.", ["state"], registry=own)
        self._queue = Gauge("headgate_queue_length", "Tasks that wait.", registry=own)
        self._clients = Gauge("headgate_stream_clients", "Clients that follow.", registry=own)
        self._turns = Counter("headgate_turns", "Replies that models have given.", registry=own)
        self._tokens = Counter(
            "headgate_tokens",
            "Tokens of prompts and replies; cached is the part of prompt that the server had read before.",
            ["kind"],
            registry=own,
        )
        self._runs = Counter("headgate_verify_runs", "Verifications.", ["result"], registry=own)
        self._delay = Histogram(
            "headgate_event_delay_seconds",
            "From the moment of an event until it was handed to a client.",
            registry=own,
            buckets=_DELAYS,
        )
        feed.on_event = self._hear
        feed.on_sent = self._delay.observe

    def _hear(self, event: Event) -> None:
        match event.body:
            case ReplyReceived() as body:
                self._turns.inc()
                self._tokens.labels("prompt").inc(body.prompt_tokens)
                self._tokens.labels("cached").inc(body.cached_tokens)
                self._tokens.labels("completion").inc(body.completion_tokens)
            case VerifyFinished() as body:
                self._runs.labels("passed" if body.passed else "failed").inc()
            case _:
                pass

    def render(self) -> bytes:
        """All figures in the text format."""
        counts = self._store.count_tasks()
        for state in get_args(TaskState):
            self._tasks.labels(state).set(counts.get(state, 0))
        self._queue.set(counts.get("QUEUED", 0))
        self._clients.set(self._feed.clients)
        return generate_latest(self._registry)
