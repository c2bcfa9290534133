"""A few tiny requests that show how a model can be made to call tools. Nothing here can stop a task."""

import asyncio
import time
from dataclasses import dataclass

from headgate.core.messages import Message, Model, Reply, Request, ToolSpec
from headgate.core.settings import ModelSettings
from headgate.errors import ModelError
from headgate.models.base import Endpoint
from headgate.models.failures import RequestRejected, ToolsUnsupported
from headgate.models.jsontext import UNPARSED, parse_arguments
from headgate.models.profile import Profile
from headgate.models.transports.findings import Findings, Native
from headgate.models.transports.replies import read_text
from headgate.models.transports.schema import read_object
from headgate.models.transports.servers import CONSTRAINTS, Kind, ask_window, identify

TOOL = ToolSpec(
    "report_ready",
    "Report that you are ready.",
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    "control",
)
QUESTION = Message("user", f"Call the tool {TOOL.name} with ok set to true. Answer with nothing else.")
MAX_TOKENS = 512
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


@dataclass
class Probe:
    """Asks one model; three requests at most."""

    model: Model
    profile: Profile
    kind: Kind

    async def run(self, first: Reply | ToolsUnsupported | None = None) -> Findings:
        """What was found out; `first` is what the question with a tool brought, if it was asked already."""
        found = Findings(server=self.kind)
        reply = None
        if "native" in self.profile.transports or first is not None:
            answer = first if first is not None else await self._offer_tool()
            if isinstance(answer, Reply):
                reply = answer
                found = found.model_copy(update={"native": self._judge(reply)})
            else:
                found = found.model_copy(update={"native": "refused"})
            if found.native in ("calls", "text", "unknown"):
                return found
        if reply is not None and reply.usage.prompt:
            bare = await self.model.reply(Request([QUESTION], max_tokens=1))
            dropped = bare.usage.prompt == reply.usage.prompt if bare.usage.prompt else None
            found = found.model_copy(update={"tools_dropped": dropped})
        if "schema" not in self.profile.transports:
            return found.model_copy(update={"constrains": False})
        return found.model_copy(update={"constrains": await self._constrains()})

    async def _offer_tool(self) -> Reply | ToolsUnsupported:
        try:
            return await self.model.reply(Request([QUESTION], (TOOL,), max_tokens=MAX_TOKENS))
        except ToolsUnsupported as error:
            return error

    def _judge(self, reply: Reply) -> Native:
        # A call of something else is of no use, but the server's way of calling works.
        if any(UNPARSED not in parse_arguments(call.arguments) for call in reply.message.calls):
            return "calls"
        if read_text(reply, (TOOL,), self.profile).calls:
            return "text"
        # Cut off while it was thinking: that says nothing.
        return "unknown" if reply.finish == "length" else "none"

    async def _constrains(self) -> bool:
        """Whether a reply has a form that no model would choose by itself."""
        extra = CONSTRAINTS[self.kind][0](_SHAPE)
        try:
            reply = await self.model.reply(Request([_GREETING], max_tokens=MAX_TOKENS, extra_body=extra))
        except (RequestRejected, ToolsUnsupported):
            return False
        return read_object(read_text(reply, (), self.profile).content) == {"state": _WORD}


async def examine(
    settings: ModelSettings,
    endpoint: Endpoint,
    model: Model,
    profile: Profile,
    first: Reply | ToolsUnsupported | None = None,
) -> Findings | None:
    """Everything that can be found out; None where the server did not answer or took too long."""
    try:
        async with asyncio.timeout(SECONDS):
            kind, window = await identify(endpoint, settings.timeouts)
            found = await Probe(model, profile, kind).run(first)
            # Asked last: some servers tell only of models that are loaded.
            window = await ask_window(endpoint, settings.timeouts, kind) or window
    except (ModelError, TimeoutError):
        return None  # the task will meet the same failure, and wait or report it as it should
    return found.model_copy(update={"context_window": window, "at": time.time()})
