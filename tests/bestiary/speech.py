"""What a model is asked and what it answers: the two sides of every behaviour in the bestiary."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

DONE = "stage_done"
LAST_TURN = "This is the last turn of stage"


@dataclass(frozen=True)
class Asked:
    """One request, as the server got it."""

    number: int
    """Which request of the run it is, from 1."""
    messages: list[dict[str, Any]]
    tools: tuple[str, ...]
    stage: str
    """The stage that was announced last, of those that the closing signal names; empty without a signal."""

    @property
    def final(self) -> bool:
        """Only the closing signal may be called: the list of tools stays the same."""
        told = [str(one["content"]) for one in self.messages if one["role"] == "user"]
        return self.tools == (DONE,) or (bool(told) and told[-1].startswith(LAST_TURN))

    @property
    def last(self) -> str:
        return str(self.messages[-1]["content"])

    @property
    def answered(self) -> bool:
        """The last thing that happened is that tool calls were answered."""
        return bool(self.messages[-1]["role"] == "tool")

    @classmethod
    def read(cls, body: Any, number: int) -> "Asked":
        functions = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())}
        done = functions.get(DONE, {}).get("parameters", {}).get("properties", {})
        named = done["stage"]["enum"] if done else [""]
        told = "\n".join(str(one["content"]) for one in body["messages"] if one["role"] == "user")
        stage = max(named, key=lambda name: told.upper().rfind(f"STAGE: {name.upper()}"))
        return cls(number, body["messages"], tuple(functions), stage)


@dataclass(frozen=True)
class Call:
    """A tool call; the arguments are text, which need not be JSON."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Say:
    """A reply in the wire format that the server should have."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str = ""
    """Why it ended, as the server names it; empty for what fits."""
    usage: Any = "counted"
    """What the server says about tokens; None for nothing, `counted` for the truth."""
    streamed: bool = True
    piece: int = 20_000
    """Characters in one event of a stream."""
    pause: float = 0.0
    """Seconds between two events."""
    broken_off: bool = False
    """The connection is closed before the reply is complete."""


@dataclass(frozen=True)
class Send:
    """Any bytes."""

    body: bytes = b""
    status: int = 200
    kind: str = "text/event-stream"
    headers: Mapping[str, str] | None = None
    ending: Literal["complete", "reset", "silent", "endless"] = "complete"
    """`reset` drops the connection at once, `silent` keeps it open, `endless` repeats the body for ever."""


Answer = Say | Send


def use(name: str, **arguments: Any) -> Say:
    """A reply with one call."""
    return Say(calls=(Call(name, json.dumps(arguments)),))


def both(*replies: Say) -> Say:
    """Several replies of one call each as one reply."""
    return Say(
        "".join(reply.text for reply in replies), tuple(call for reply in replies for call in reply.calls)
    )


def write(name: str, arguments: str) -> Say:
    """A reply with one call whose arguments are exactly this text."""
    return Say(calls=(Call(name, arguments),))


def done(asked: Asked, summary: str = "Fixed add. All tests pass.", **more: Any) -> Say:
    """The closing signal of the stage that is under way, or plain words where none is offered."""
    if not asked.stage:
        return Say(summary)
    return use(DONE, stage=asked.stage, summary=summary, **more)


def whole(reply: Say) -> Say:
    """The same, not streamed."""
    return replace(reply, streamed=False)


def status(state: str = "in-progress", *, ready: bool = False, more: bool = True) -> Say:
    """A call that reports on progress and does nothing else."""
    return use(
        "agent__task_status",
        status=state,
        done="Looked at the task",
        pending="The fix",
        now="Thinking about the fix",
        ready_for_final_report=ready,
        need_to_run_more_tools=more,
    )


FIX = {"path": "calc.py", "old": "return a - b", "new": "return a + b"}
"""The edit that does the task."""


def fix() -> Say:
    return use("edit_file", **FIX)


def work_and_claim(asked: Asked, work: Say, summary: str = "Fixed add. All tests pass.") -> Say:
    """The work, then the claim that it is done, and so on as often as it is sent back."""
    return done(asked, summary) if asked.answered or asked.final or not asked.tools else work
