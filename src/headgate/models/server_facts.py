"""What is known about a model and its server, what may be asked of them, and the file that remembers it."""

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import Field, ValidationError

from headgate.core import Message, Model, ModelSettings, Reply, Request, Settings, ToolSpec, Usage
from headgate.errors import ModelError
from headgate.models.encoding import UNPARSED, arguments_as_object
from headgate.models.endpoint import find_endpoint, split_model
from headgate.models.profile import Profile, Transport, find_profile
from headgate.models.schema_transport import CONSTRAINTS, read_object
from headgate.models.servers import WINDOWS, ServerKind, ask_window, identify_server
from headgate.models.text_transport import read_text
from headgate.models.wire import open_wire
from headgate.models.wire.failures import RequestRejected, ToolsUnsupported

MAX_AGE = 7 * 86_400.0
"""Seconds after which a server is asked again: it may have been started differently since."""

Native = Literal["calls", "text", "none", "refused", "unknown"]


class ServerFacts(Settings):
    """How a model answered, when it was asked to call a tool."""

    native: Native = "unknown"
    """Offered a tool: it called it, wrote the call as text, did neither, or the server takes no tools."""
    tools_dropped: bool | None = None
    """The prompt had as many tokens with the tool as without it: the server never showed it."""
    constrains: bool | None = None
    """The server held the model to a JSON schema."""
    server: ServerKind = "unknown"
    context_window: int | None = Field(None, ge=WINDOWS.start, lt=WINDOWS.stop)
    """What the server says."""
    at: float = 0
    """When this was found out, in seconds since 1970."""

    def choose(self, profile: Profile) -> Transport:
        """The transport to begin with. Where nothing is known, the server's own calls."""
        able = profile.transports
        if self.native == "calls" or (self.native == "unknown" and self.constrains is None):
            return "native" if "native" in able or self.native == "calls" else able[0]
        if self.native == "text" and "text" in able:
            return "text"
        return "schema" if self.constrains and "schema" in able else "text"

    def describe(self) -> str:
        """What was found, for people."""
        told = {
            "calls": "native tool calls work",
            "text": "the model writes its calls as text",
            "none": "the model called no tool",
            "refused": "the server does not accept tools",
            "unknown": "it is unknown whether native tool calls work",
        }[self.native]
        if self.tools_dropped:
            told = "the server silently ignores the tools"
        if self.constrains is not None:
            told += ", schemas are enforced" if self.constrains else ", schemas are ignored"
        if self.context_window:
            told += f", context window {self.context_window:,} tokens"
        return told


def _recall(file: Path) -> ServerFacts | None:
    """What is remembered; None if there is nothing, or nothing that can still be believed."""
    try:
        found = ServerFacts.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    return found if 0 <= time.time() - found.at <= MAX_AGE else None


def _remember(file: Path, findings: ServerFacts) -> None:
    fresh = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(findings.model_dump_json())
        fresh.replace(file)
    except OSError:
        return  # a cache that cannot be written costs only the same questions again


# A few tiny requests that show how a model can be made to call tools. Nothing here can stop a task.


TOOL = ToolSpec(
    "report_ready",
    "Report that you are ready.",
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    "control",
)
QUESTION = Message("user", f"Call the tool {TOOL.name} with ok set to true. Answer with nothing else.")
MAX_TOKENS = 1024
"""A model that reasons needs some of them before it calls."""
SECONDS = 120.0
"""For all of it: a local server may have to load the model first."""
_GREETING = Message("user", "Say good morning.")
_WORD = "headgate-ready"
_SHAPE = {
    "type": "object",
    "properties": {"state": {"type": "string", "const": _WORD}},
    "required": ["state"],
    "additionalProperties": False,
}


def question_with_tool(most: int | None = None) -> Request:
    """What shows whether a model calls tools, and how."""
    return Request([QUESTION], (TOOL,), max_tokens=min(MAX_TOKENS, most or MAX_TOKENS))


def judge_calls(reply: Reply, profile: Profile) -> Native:
    """What a reply to that question says about the model and its server."""
    # A call of something else is of no use, but the server's way of calling works.
    if any(UNPARSED not in arguments_as_object(call.arguments) for call in reply.message.calls):
        return "calls"
    if read_text(reply, (TOOL,), profile).calls:
        return "text"
    # Cut off while it was thinking: that says nothing.
    return "unknown" if reply.finish == "length" else "none"


class Probe:
    """Asks a server about itself, and its model three requests at most."""

    def __init__(self, settings: ModelSettings, model: Model) -> None:
        self.spent = Usage()
        self._settings = settings
        self._model = model
        self._profile = find_profile(split_model(settings.model)[1])

    async def run(self, first: Reply | ToolsUnsupported | None = None) -> ServerFacts | None:
        """Everything that can be found out; None where the server did not answer or took too long.

        `first` is the answer to the question with a tool, if it was asked already.
        """
        endpoint, timeouts = find_endpoint(self._settings), self._settings.timeouts
        try:
            async with asyncio.timeout(SECONDS):
                kind, window = await identify_server(endpoint, timeouts)
                found = await self._ask_model(kind, first)
                # Asked last: some servers tell only of models that are loaded.
                window = await ask_window(endpoint, timeouts, kind) or window
        except (ModelError, TimeoutError):
            return None  # the task will meet the same failure, and wait or report it as it should
        return found.model_copy(update={"server": kind, "context_window": window, "at": time.time()})

    async def _ask_model(self, kind: ServerKind, first: Reply | ToolsUnsupported | None) -> ServerFacts:
        native: Native = "unknown"
        dropped: bool | None = None
        if "native" in self._profile.transports or first is not None:
            answer = first if first is not None else await self._offer_tool()
            native = judge_calls(answer, self._profile) if isinstance(answer, Reply) else "refused"
            if native in ("calls", "text", "unknown"):
                return ServerFacts(native=native)
            if isinstance(answer, Reply) and answer.usage.prompt:
                bare = await self._ask(Request([QUESTION], max_tokens=1))
                dropped = bare.usage.prompt == answer.usage.prompt if bare.usage.prompt else None
        constrains = "schema" in self._profile.transports and await self._constrains(kind)
        return ServerFacts(native=native, tools_dropped=dropped, constrains=constrains)

    async def _ask(self, request: Request) -> Reply:
        reply = await self._model.reply(request)
        self.spent += reply.usage + reply.aside
        return reply

    async def _offer_tool(self) -> Reply | ToolsUnsupported:
        try:
            return await self._ask(question_with_tool())
        except ToolsUnsupported as error:
            return error

    async def _constrains(self, kind: ServerKind) -> bool:
        """Whether a reply has a form that no model would choose by itself."""
        extra = CONSTRAINTS[kind][0](_SHAPE)
        try:
            reply = await self._ask(Request([_GREETING], max_tokens=MAX_TOKENS, extra_body=extra))
        except (RequestRejected, ToolsUnsupported):
            return False
        return read_object(read_text(reply, (), self._profile).content) == {"state": _WORD}


# What is known about a model and its server, and what may be asked of them, each thing once a task.


class ServerInquiry:
    """Knows what was found out. Creating it asks nothing; each method says what it asks."""

    def __init__(
        self, settings: ModelSettings, cache: Path | None = None, findings: ServerFacts | None = None
    ) -> None:
        self.findings = findings
        """None where nothing is known."""
        self.is_fresh = False
        """Whether that was found out in this task; what is remembered may not be true any more."""
        self._settings = settings
        self._cache = cache or platformdirs.user_cache_path("headgate") / "models"
        self._spent = Usage()
        self._asked_window = False

    @property
    def server(self) -> ServerKind:
        """The kind of the server, as far as it is known."""
        if split_model(self._settings.model)[0] == "ollama":
            return "ollama-api"
        return self.findings.server if self.findings else "unknown"

    @property
    def wants_window(self) -> bool:
        """Whether the user left the context window open."""
        return self._settings.context_window is None

    def spend(self, usage: Usage) -> None:
        """Adds the tokens of a request that only answered a question."""
        self._spent += usage

    def take_spent(self) -> Usage:
        """The tokens that were spent on questions since this was last called."""
        spent, self._spent = self._spent, Usage()
        return spent

    def recall(self) -> ServerFacts | None:
        """What is remembered from earlier tasks."""
        self.findings = self.findings or _recall(self._file())
        return self.findings

    async def probe(self, first: Reply | ToolsUnsupported | None = None) -> ServerFacts | None:
        """Asks the server and the model, three tiny requests at most, and remembers the answers.

        `first` is the answer to the question with a tool, if it was asked already. None where it failed.
        """
        async with open_wire(self._settings) as wire:
            probe = Probe(self._settings, wire)
            try:
                found = await probe.run(first)
            finally:
                self.spend(probe.spent)
        if found is not None:
            _remember(self._file(), found)
            self.findings, self.is_fresh = found, True
        return found

    async def ask_server(self) -> ServerFacts:
        """Asks the server about itself, with a few short GETs that may fail, and the model nothing."""
        self._asked_window = True
        endpoint, timeouts = find_endpoint(self._settings), self._settings.timeouts
        kind, window = await identify_server(endpoint, timeouts)
        window = await ask_window(endpoint, timeouts, kind) or window
        known = self.findings or ServerFacts()
        self.findings = known.model_copy(update={"server": kind, "context_window": window})
        return self.findings

    async def find_window(self) -> int | None:
        """The server's context window, where the user left it open; asked for once."""
        if not self.wants_window:
            return None
        if not self._asked_window and not (self.findings and self.findings.context_window):
            await self.ask_server()
        return self.findings.context_window if self.findings else None

    def _file(self) -> Path:
        endpoint = find_endpoint(self._settings)
        key = hashlib.sha256(f"{endpoint.root}\n{endpoint.model}".encode()).hexdigest()[:32]
        return self._cache / f"{key}.json"
