"""What happens in a turn: messages, the model's reply, the calls in it, and how servers behaved."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from headgate.core.attempt import UNUSABLE
from headgate.core.counts import Fault
from headgate.core.event import Body, Line, Moment, Slice
from headgate.core.knobs import MEMORY_TOOL
from headgate.core.messages import Category, Reply, Usage, clean_text
from headgate.core.settings import Data, ModelSettings
from headgate.core.spending import Spending, spent
from headgate.core.state import State
from headgate.core.task_events import Mishaps
from headgate.core.text import first_clause, shorten, shorten_words
from headgate.errors import ReplyInvalid
from headgate.first_use import dataclass


@dataclass
class Calls(Slice):
    """The model's calls, and what it was told of those that it could not make."""

    made: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    corrections: Counter[str] = field(default_factory=Counter)
    """Corrections sent to the model, by slug."""
    open: dict[tuple[str, str], "ToolStarted"] = field(default_factory=dict)
    """Calls that were begun and not answered, by the path of the attempt and the id of the call: after a
    crash, nobody knows whether they took effect. Ids are unique only within a conversation."""
    answered: "ToolStarted | None" = None
    """The start of the call that was answered last; None if it was not begun."""

    def report(self, state: State) -> Mapping[str, Any]:
        return {
            "tool_calls_total": self.made.total(),
            "tool_errors_total": self.failed.total(),
            "tool_call_counts": dict(self.made),
            "tool_error_counts": dict(self.failed),
            "feedback_counts": dict(self.corrections),
            "memories_saved": self.made[MEMORY_TOOL] - self.failed[MEMORY_TOOL],
        }


@dataclass
class Servers(Slice, order=50):
    """What servers of models could not do. People are told once."""

    remarks: Counter[str] = field(default_factory=Counter)
    """What they could not do with requests."""
    cut: "PromptCut | None" = None
    """What a server cut off a prompt, the first time that it did."""

    def warnings(self, state: State) -> Iterable[str]:
        return (self.cut.describe(),) if self.cut else ()


_IN_SLUG = {"correct_": "fault", "nudge_": "loop", "result ": "result_of"}


class ImageAdded(Body):
    """An image goes with the next message to the model; its content is the image in base64."""

    kind: ClassVar[str] = "image_added"
    path: str
    media_type: str


class MessageAdded(Body):
    """The runtime put a message into a transcript. `slug` says which."""

    kind: ClassVar[str] = "message_added"
    role: Literal["system", "user"]
    slug: str
    said: tuple[int, ...] = ()
    """The lines of a person that it contains, by number."""
    fault: str = ""
    """What was wrong with the reply that it answers; empty where nothing was."""
    loop: str = ""
    """The kind of loop that it tells of, if it does."""
    result_of: str = ""
    """The stage whose result it brings, if it does."""
    guides: tuple[str, ...] = ()
    """The files with a project's rules for some folder that it contains."""

    @model_validator(mode="before")
    @classmethod
    def _read_slug(cls, fields: Any) -> Any:
        """Earlier versions wrote some of these facts into the slug alone."""
        if isinstance(fields, dict):
            for prefix, name in _IN_SLUG.items():
                if str(fields.get("slug", "")).startswith(prefix):
                    return {name: fields["slug"].removeprefix(prefix), **fields}
        return fields

    def apply(self, state: State, now: Moment) -> None:
        corrections = state[Calls].corrections
        if self.fault:
            corrections[self.fault] += 1
            if attempt := state.nodes.get(now.path):
                attempt.counts.faults[Fault(self.fault)] += 1
        if self.loop:
            corrections[f"loop_{self.loop}"] += 1


class ReplyReceived(Spending):
    """The model answered."""

    kind: ClassVar[str] = "reply_received"
    finish: str
    calls: tuple[str, ...]
    aside_tokens: int = 0
    """Of the prompt's, those of other requests, or that no server counted."""
    remark: str = ""
    """What the server could not do with the request, and what was done instead."""

    @classmethod
    def of(cls, reply: Reply, asked: ModelSettings) -> "ReplyReceived":
        """What the log keeps of a reply for good."""
        calls = tuple(clean_text(call.name)[:80] for call in reply.message.calls)
        fields = spent(reply.usage + reply.aside, asked, estimated=reply.estimated)
        aside, remark = reply.aside.prompt, clean_text(reply.remark)
        return cls(finish=reply.finish, calls=calls, aside_tokens=aside, remark=remark, **fields)

    def apply(self, state: State, now: Moment) -> None:
        take_reply(state, now, self)
        state[Servers].remarks.update(filter(None, [self.remark]))
        if attempt := state.nodes.get(now.path):
            attempt.take_reply()

    def line(self, state: State, now: Moment) -> Line | None:
        new = state[Servers].remarks[self.remark] == 1
        return Line(f"Warning: {self.remark.rstrip('.')}") if new else None


class ReplyFailed(Spending):
    """A request returned no usable reply. What an answer cost that cannot be used counts, if it is known."""

    kind: ClassVar[str] = "reply_failed"
    error: Literal["unavailable", "refused", "invalid", "overflow"]
    detail: str
    server: Literal["", "away", "loading"] = ""
    """Of a model that is unavailable: what its server is at."""

    @classmethod
    def unusable(cls, error: ReplyInvalid, asked: ModelSettings) -> "ReplyFailed":
        """The model answered, for nothing. If nobody counted, the sum is too low, and so an estimate."""
        uncounted = error.estimated or not any(error.tokens)
        fields = spent(Usage(*error.tokens), asked, estimated=uncounted)
        return cls(error="invalid", detail=str(error), **fields)

    def apply(self, state: State, now: Moment) -> None:
        if self.error == "invalid":
            take_reply(state, now, self)
        attempt = state.nodes.get(now.path)
        if attempt is None:
            return
        match self.error:
            case "invalid":
                attempt.take_reply(usable=False)
            case "overflow":
                attempt.take_overflow()
            case "unavailable" | "refused":
                attempt.counts.unanswered.take(
                    self.detail, self.server, now.at, refused=self.error == "refused"
                )

    def line(self, state: State, now: Moment) -> Line | None:
        attempt = state.nodes.get(now.path)
        if self.error == "refused":
            return None  # the task ends with it, and its summary says it
        if self.error == "unavailable" and attempt and not attempt.counts.unanswered.is_news:
            return None
        return Line(f"Model: {self.detail}", "note")


def take_reply(state: State, now: Moment, reply: Spending) -> None:
    """Counts what the model answered in a stage."""
    state[Mishaps].resumes = 0
    state.accounts.replies += 1
    state.accounts.take(now.path, reply)


class PromptCut(Body):
    """The model's server read only a part of the prompt, and did not say so."""

    kind: ClassVar[str] = "prompt_cut"
    model: str
    sent: int
    """Tokens, by an estimate."""
    read: int
    """Tokens, by the server's own count."""
    window: int | None = None
    """The server's context window, where it tells; the history is kept below it from here on."""
    remedy: str = ""

    def describe(self) -> str:
        """What happened and what helps, without the last full stop."""
        window = f" (its context window is {self.window:,} tokens)" if self.window else ""
        told = f"the model server read only {self.read:,} of about {self.sent:,} tokens{window} and cut off "
        return f"{told}the rest without an error{f'. {self.remedy}' if self.remedy else ''}"

    def apply(self, state: State, now: Moment) -> None:
        state[Servers].cut = state[Servers].cut or self

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Warning: {self.describe()}", "note") if state[Servers].cut == self else None


class FileHashes(Data):
    """A file before and after a planned write; None where it does not exist."""

    path: str
    before: str | None
    after: str | None


class ToolStarted(Body):
    """A call is about to run. For a write, `changes` tells after a crash whether it was done."""

    kind: ClassVar[str] = "tool_started"
    call: str
    name: str
    category: Category | None
    """None for a tool that does not exist."""
    target: str
    """The path, pattern or command, shortened, for people to read."""
    changes: tuple[FileHashes, ...] = ()

    def apply(self, state: State, now: Moment) -> None:
        state[Calls].open[now.path, self.call] = self
        for change in self.changes:
            state.first_hashes.setdefault(change.path, change.before)
        attempt = state.nodes.get(now.path)
        if attempt and any(change.before != change.after for change in self.changes):
            attempt.effective.add(self.call)


_VERBS = {
    "ls": "list",
    "read_file": "read",
    "read_files": "read",
    "find_files": "find",
    "write_file": "write",
    "edit_file": "edit",
    "apply_patch": "patch",
    "shell": "run",
    "load_skill": "load skill",
    "make_skill": "make skill",
}
_TOLD = frozenset({"run_tests", "ask_scout", "agent__task_status", "plan_tasks"})
"""Calls that other events tell of, unless they fail."""
_PATHS_SHOWN = 3
_WHY_SHOWN = 120


class ToolFinished(Body):
    """A call was answered."""

    kind: ClassVar[str] = "tool_finished"
    call: str
    name: str
    ok: bool
    error: str = ""
    """The slug of what went wrong: `denied`, `invalid_arguments`, `failed`, `unknown_tool`, ..."""
    detail: str = ""
    """The beginning of the answer to a call that went wrong."""
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    """What a command did where it may not, and was undone: a sentence each."""
    sources: tuple[str, ...] = ()
    """Pages of the web that were returned, a line each."""
    category: Category | None = None
    """None for a tool that does not exist."""
    key: str = ""
    """Stands for the name and the arguments: equal calls have equal ones."""
    result: str = ""
    """Stands for the answer: equal answers have equal ones."""
    tree: str = ""
    """The git tree that a command left, where whose changes are whose is recorded."""
    guides: tuple[str, ...] = ()
    """The files with a project's rules for some folder that the answer contains."""
    told: str = ""
    """What came of it in a few words for people: lines added and removed, or how a command failed."""

    def apply(self, state: State, now: Moment) -> None:
        calls = state[Calls]
        calls.answered = calls.open.pop((now.path, self.call), None)
        calls.made[self.name] += 1
        if self.error in UNUSABLE:
            calls.corrections[self.error] += 1
        if not self.ok:
            calls.failed[self.name] += 1
        state.files_read.update(dict.fromkeys(self.read))
        state.files_changed.update(dict.fromkeys(self.changed))
        if attempt := state.nodes.get(now.path):
            attempt.take_call(self)

    def line(self, state: State, now: Moment) -> Line | None:
        if self.restored:
            more = f" (and {len(self.restored) - 1} more)" if len(self.restored) > 1 else ""
            return Line(f"{self.restored[0].rstrip('.')}{more}", "note")
        if self.error == "denied":
            return Line(f"Refused: {first_clause(self.detail)}", "note")
        # What the model thinks is not shown, and neither are the signals that the runtime accepted.
        if self.ok and (self.category in ("reasoning", "control") or self.name in _TOLD):
            return None
        begun = state[Calls].answered
        return Line(self._say(begun.target if begun else ""), "call")

    def _say(self, target: str) -> str:
        what = f"{_VERBS.get(self.name, self.name)} {self._files() or target}".rstrip()
        if not self.ok:
            why = (self.detail or self.error).removeprefix(f"{self.name}: ")
            first = " ".join(why.split()).split("; ", maxsplit=1)[0].split(". ", maxsplit=1)[0]
            return f"{what}: failed: {shorten(first.rstrip('.'), _WHY_SHOWN)}"
        if self.category == "run":
            how = {"": "", "timed out": ": timed out"}.get(self.told, f": failed ({self.told})")
            return f"{what}{how}"
        return f"{what} {self.told}".rstrip()

    def _files(self) -> str:
        """The files of a call that has several: what it was given tells only the beginning of the list."""
        lists = {"apply_patch": self.changed, "read_files": self.read}
        files = lists.get(self.name, ())
        more = f" and {len(files) - _PATHS_SHOWN} more" if len(files) > _PATHS_SHOWN else ""
        return ", ".join(files[:_PATHS_SHOWN]) + more


class TaskStatusGiven(Body):
    """The model reported where it stands."""

    kind: ClassVar[str] = "task_status_given"
    status: Literal["starting", "in-progress", "completed"]
    done: str
    pending: str
    now: str
    ready_for_final_report: bool
    need_to_run_more_tools: bool

    def apply(self, state: State, now: Moment) -> None:
        if attempt := state.nodes.get(now.path):
            attempt.take_status(self.slug)

    @property
    def slug(self) -> str:
        """What it comes to: `completed` takes three confirmations, `stuck` two."""
        if self.need_to_run_more_tools:
            return ""
        if not self.ready_for_final_report:
            return "stuck"
        return "completed" if self.status == "completed" else ""

    def line(self, state: State, now: Moment) -> Line | None:
        parts = (("", self.now), ("done: ", self.done), ("pending: ", self.pending))
        said = "; ".join(f"{name}{shorten_words(text)}" for name, text in parts if text.strip())
        return Line(f"Status: {self.status}: {said}")


class ViewCompacted(Body):
    """What the model sees of a transcript was cut down; the transcript itself was not."""

    kind: ClassVar[str] = "view_compacted"
    reason: str
    messages_before: int
    messages_after: int
    chars: int
    """The size it was to be cut to."""

    def apply(self, state: State, now: Moment) -> None:
        if attempt := state.nodes.get(now.path):
            attempt.take_compaction(for_room=self.reason == "context")

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Context compacted: {self.messages_before} messages to {self.messages_after}")
