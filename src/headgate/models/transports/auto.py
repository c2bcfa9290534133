"""The transport that works: begun with what is known, and left for a simpler one on evidence."""

from headgate.core.messages import Model, OnDelta, Reply, Request
from headgate.models.failures import RequestRejected, ToolsUnsupported
from headgate.models.profile import Profile, Transport
from headgate.models.transports.findings import Findings
from headgate.models.transports.native import NativeModel
from headgate.models.transports.schema import SchemaModel
from headgate.models.transports.text import TextModel

RESCUED_MOST = 3
"""Replies with calls in their text, after which the server's own calls are given up."""
IGNORED_MOST = 2
"""Replies that do not keep to the schema, after which it is given up."""


class AutoModel:
    """One of the transports, and another one for the rest of the task if it does not work."""

    def __init__(self, inner: Model, profile: Profile, findings: Findings) -> None:
        self.name = inner.name
        self.transport: Transport = findings.choose(profile)
        """The one at work."""
        self._native = NativeModel(inner, profile, rescue=True)
        self._text = TextModel(inner, profile)
        self._schema = SchemaModel(inner, profile, findings.server)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply; a server that takes no tools, or no schema, is asked again at once without."""
        try:
            if self.transport == "native":
                return await self._native.reply(request, on_delta)
            if self.transport == "schema":
                return await self._schema.reply(request, on_delta)
        except ToolsUnsupported:
            self.transport = "text"
        except RequestRejected:
            # It may be about something else, which asking without the schema then shows.
            if self.transport == "native":
                raise
            self.transport = "text"
        finally:
            self._learn()
        return await self._text.reply(request, on_delta)

    def _learn(self) -> None:
        if self.transport == "native" and self._native.rescued >= RESCUED_MOST:
            self.transport = "text"
        if self.transport == "schema" and self._schema.ignored >= IGNORED_MOST:
            self.transport = "text"
