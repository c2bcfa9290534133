"""Models over the network: the second face of this room, for what asks servers and takes long to import.

A model's transport is chosen here: from what is known at first, and another one if it does not work.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from headgate.core import Model, ModelSettings, OnDelta, Reply, Request, Usage
from headgate.errors import ConfigError, ContextOverflow, ReplyInvalid
from headgate.models.endpoint import DEFAULT_NUM_CTX, find_endpoint, is_hosted, split_model
from headgate.models.profile import Profile, Transport, find_profile, profile_for, with_price, with_profile
from headgate.models.schema_transport import SchemaModel
from headgate.models.server_facts import TOOL as PROBE_TOOL
from headgate.models.server_facts import ServerFacts, ServerInquiry, judge_calls, question_with_tool
from headgate.models.servers import (
    USUAL_ADDRESSES,
    CutPromptDetector,
    FoundModel,
    FoundServer,
    ask_largest_window,
    ask_loaded_window,
    explain_remedy,
    find_servers,
    identify_server,
    rank_models,
)
from headgate.models.text_transport import NativeModel, TextModel
from headgate.models.wire import open_wire
from headgate.models.wire.failures import (
    KeyRefused,
    ModelUnknown,
    QuotaSpent,
    RequestRejected,
    ServerTrouble,
    ToolsUnsupported,
)
from headgate.models.wire.http import list_models

RESCUED_MOST = 3
"""Replies with calls in their text, after which the server's own calls are given up."""
IGNORED_MOST = 2
"""Replies that do not keep to the schema, after which it is given up."""
SILENT_MOST = 2
"""Replies in a row without a call, after which it is found out whether calls can come at all."""


class AutoModel:
    """One of the transports, and another one for the rest of the task if it does not work.

    Where nothing is known it begins with the server's own calls. A server and a model that call tools are
    sent nothing besides; where no call comes, they are asked once how calls can be had, and if that is in
    another way, the request is made again in that. What is remembered from earlier tasks is doubted as well:
    the server may have been started differently since.
    """

    def __init__(self, inner: Model, profile: Profile, inquiry: ServerInquiry) -> None:
        self.name = inner.name
        self.context_window: int | None = None
        """What the server said of it when there was reason to ask; None where the settings have it."""
        self._inner = inner
        self._profile = profile
        self._inquiry = inquiry
        self._may_probe = not inquiry.is_fresh
        self._silent = 0
        self._refusal: ToolsUnsupported | None = None
        findings = inquiry.findings or ServerFacts()
        self.transport: Transport = findings.choose(profile)
        """The one at work."""
        self._told = self.transport
        """The one that people know of."""
        self._native = NativeModel(inner, profile, rescue=True)
        self._text = TextModel(inner, profile)
        self._schema = SchemaModel(inner, profile, inquiry.server)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply; a server that takes no tools, or no schema, is asked again at once without."""
        try:
            reply = await self._ask(request, on_delta)
            if request.tools and self._is_doubtful(reply) and await self._probe():
                self._inquiry.spend(reply.usage + reply.aside)
                reply = await self._ask(request, on_delta)
        except ReplyInvalid:
            self._silent = 0  # an attempt at a call, which the model can fix
            raise
        except ContextOverflow:
            self.context_window = await self._inquiry.find_window()
            raise
        if not request.tools:
            return reply
        reply, spent = self._tell_change(reply), self._inquiry.take_spent()
        return replace(reply, aside=reply.aside + spent) if spent != Usage() else reply

    def _tell_change(self, reply: Reply) -> Reply:
        """The reply, with a remark if calls are asked for in another way from now on."""
        before, self._told = self._told, self.transport
        if reply.remark or before == self.transport:
            return reply
        how = "asked for with a schema" if self.transport == "schema" else "read from text"
        why = f" {self._refusal}" if self._refusal else ""
        return replace(reply, remark=f"Calls are {how} from now on.{why}")

    async def _ask(self, request: Request, on_delta: OnDelta | None) -> Reply:
        try:
            if self.transport == "native":
                return await self._native.reply(request, on_delta)
            if self.transport == "schema":
                return await self._schema.reply(request, on_delta)
        except ToolsUnsupported as refusal:
            self.transport, self._refusal = "text", refusal
        except RequestRejected as rejected:
            # It may be about something else, which asking without the schema then shows.
            if self.transport == "native":
                raise
            self._give_up_schema()
            reply = await self._text.reply(request, on_delta)
            return replace(reply, remark=f"Calls are read from text from now on. {rejected}")
        finally:
            self._learn()
        return await self._text.reply(request, on_delta)

    def _learn(self) -> None:
        if self.transport == "native" and self._native.rescued >= RESCUED_MOST:
            self.transport = "text"
        if self.transport == "schema" and self._schema.ignored >= IGNORED_MOST:
            self._give_up_schema()

    def _give_up_schema(self) -> None:
        self.transport = "text"
        self._may_probe = False  # a schema is all that a probe could still find

    def _is_doubtful(self, reply: Reply) -> bool:
        """Whether calls have failed to come so often that it is worth a few questions why."""
        if reply.message.calls:
            self._may_probe = False  # they come: silence later on is the model's own
        elif reply.finish == "stop":
            self._silent += 1
        return self._may_probe and self._silent >= SILENT_MOST

    async def _probe(self) -> bool:
        """Finds out what works; whether that is another transport than the one at work."""
        self._may_probe = False
        found = await self._inquiry.probe(self._refusal)
        if found is None:
            return False  # it did not answer, which the next request will show
        before, self.transport = self.transport, found.choose(self._profile)
        self._schema = SchemaModel(self._inner, self._profile, self._inquiry.server)
        if self._inquiry.wants_window:
            self.context_window = found.context_window
        return self.transport != before


# A model as a task uses it: with its profile, what its server tells, and the transport that fits.


class _NativeAlone(NativeModel):
    """Calls through the server and in no other way; its context window is asked for when there is reason."""

    def __init__(self, inner: Model, profile: Profile, inquiry: ServerInquiry) -> None:
        super().__init__(inner, profile, rescue=False)
        self.context_window: int | None = None
        self._inquiry = inquiry

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        try:
            return await super().reply(request, on_delta)
        except ContextOverflow:
            self.context_window = await self._inquiry.find_window()
            raise


def can_be_probed(settings: ModelSettings) -> bool:
    """Whether there is anything to find out: a script and the large providers are known."""
    provider = split_model(settings.model)[0]
    return provider in ("ollama", "openai") and not is_hosted(find_endpoint(settings))


def with_transport(model: Model, settings: ModelSettings, inquiry: ServerInquiry) -> Model:
    """A model that calls tools as its settings say."""
    provider, name = split_model(settings.model)
    profile = find_profile(name)
    if can_be_probed(settings):
        model = CutPromptDetector(model, settings)
    match settings.tool_transport:
        case "native" | "auto" | None if not can_be_probed(settings):
            return model
        case "native":
            return _NativeAlone(model, profile, inquiry)
        case "text":
            return TextModel(model, profile)
        case "schema":
            if provider == "anthropic":
                raise ConfigError("The Messages API does not support schemas: remove tool_transport.")
            return SchemaModel(model, profile, inquiry.server)
    return AutoModel(model, profile, inquiry)


async def with_num_ctx(settings: ModelSettings) -> ModelSettings:
    """The settings of a model of Ollama's with the context window that is asked for, in both places.

    No model gets a larger one than it has: Ollama would silently give it less than was asked for.
    """
    asked = settings.num_ctx or settings.context_window or DEFAULT_NUM_CTX
    largest = await ask_largest_window(find_endpoint(settings), settings.timeouts)
    given = min(asked, largest or asked)
    window = min(settings.context_window or given, given)
    return settings.model_copy(update={"num_ctx": given, "context_window": window})


async def find_server_facts(
    settings: ModelSettings,
    cache: Path | None = None,
    first: Reply | ToolsUnsupported | None = None,
    fresh: bool = False,
) -> ServerFacts | None:
    """What is remembered about a model and its server; else they are asked, and the answers remembered.

    `first` is the answer to the question with a tool, if it was asked already; `fresh` remembers nothing.
    What `first` contradicts is not believed any more: the server was started in another way since.
    """
    if not can_be_probed(settings):
        return None
    inquiry = ServerInquiry(settings, cache)
    known = None if fresh else inquiry.recall()
    if known and not (first and _contradicts(known, first, settings)):
        return known
    return await inquiry.probe(first)


def _contradicts(known: ServerFacts, answer: Reply | ToolsUnsupported, settings: ModelSettings) -> bool:
    """Whether the server takes tools by now, or takes none any more. A reply in words shows neither."""
    if isinstance(answer, ToolsUnsupported):
        return known.native == "calls"
    profile = find_profile(split_model(settings.model)[1])
    return known.native != "calls" and judge_calls(answer, profile) == "calls"


async def complete_settings(
    settings: ModelSettings, cache: Path | None = None
) -> tuple[ModelSettings, ServerInquiry]:
    """The settings with what the user left open filled in, and what is known about the server.

    With `auto` the model is asked; where `text` or `schema` is named, the server is; otherwise nobody.
    """
    if split_model(settings.model)[0] == "ollama":
        settings = await with_num_ctx(settings)
    inquiry = ServerInquiry(settings, cache)
    if not can_be_probed(settings):
        return with_price(settings, profile_for(settings)), inquiry
    if inquiry.recall() is None:
        match settings.tool_transport:
            case "auto":
                await inquiry.probe()
            case "schema":
                await inquiry.ask_server()
            case "text":
                await inquiry.find_window()
    window = inquiry.findings.context_window if inquiry.findings else None
    return with_profile(settings, profile_for(settings), window), inquiry


@asynccontextmanager
async def open_model(settings: ModelSettings, inquiry: ServerInquiry | None = None) -> AsyncIterator[Model]:
    """A model, closed on leaving, with its tools called as the settings say.

    `inquiry` holds what is known about the server.
    """
    async with open_wire(settings) as model:
        yield with_transport(model, settings, inquiry or ServerInquiry(settings))
