"""What is known about a model and its server, and what may be asked of them, each thing once a task."""

from pathlib import Path

from headgate.core.messages import Model, OnDelta, Reply, Request, Usage
from headgate.core.settings import ModelSettings
from headgate.models.base import find_endpoint, open_wire, split_model
from headgate.models.failures import ToolsUnsupported
from headgate.models.profile import find_profile
from headgate.models.transports.findings import Findings, FindingsFile
from headgate.models.transports.probe import examine
from headgate.models.transports.servers import Kind, ask_window, identify


class Inquiry:
    """Knows what was found out. Creating it asks nothing; each method says what it asks."""

    def __init__(
        self, settings: ModelSettings, cache: Path | None = None, findings: Findings | None = None
    ) -> None:
        self.findings = findings
        """None where nothing is known."""
        self.is_fresh = False
        """Whether that was found out in this task; what is remembered may not be true any more."""
        self._settings = settings
        self._cache = cache
        self._spent = Usage()
        self._asked_window = False

    @property
    def server(self) -> Kind:
        """The kind of the server, as far as it is known."""
        if split_model(self._settings.model)[0] == "ollama":
            return "ollama-api"
        return self.findings.server if self.findings else "unknown"

    @property
    def wants_window(self) -> bool:
        """Whether the user left the context window open."""
        return self._settings.context_window is None

    def spend(self, usage: Usage) -> None:
        """Adds the tokens of a request that brought nothing but an answer to a question."""
        self._spent += usage

    def take_spent(self) -> Usage:
        """The tokens that were spent on questions since this was last called."""
        spent, self._spent = self._spent, Usage()
        return spent

    def recall(self) -> Findings | None:
        """What is remembered from earlier tasks."""
        self.findings = self.findings or self._file().read()
        return self.findings

    async def probe(self, first: Reply | ToolsUnsupported | None = None) -> Findings | None:
        """Asks the server and the model, three tiny requests at most, and remembers the answers.

        `first` is what the question with a tool brought, if it was asked already. None where it failed.
        """
        endpoint = find_endpoint(self._settings)
        async with open_wire(self._settings) as wire:
            counted = _Counted(wire)
            try:
                found = await examine(self._settings, endpoint, counted, find_profile(endpoint.model), first)
            finally:
                self.spend(counted.usage)
        if found is not None:
            self._file().write(found)
            self.findings, self.is_fresh = found, True
        return found

    async def ask_server(self) -> Findings:
        """Asks the server about itself, with a few short GETs that may fail, and the model nothing."""
        self._asked_window = True
        endpoint, timeouts = find_endpoint(self._settings), self._settings.timeouts
        kind, window = await identify(endpoint, timeouts)
        window = await ask_window(endpoint, timeouts, kind) or window
        known = self.findings or Findings()
        self.findings = known.model_copy(update={"server": kind, "context_window": window})
        return self.findings

    async def find_window(self) -> int | None:
        """The server's context window, where the user left it open; asked for once."""
        if not self.wants_window:
            return None
        if not self._asked_window and not (self.findings and self.findings.context_window):
            await self.ask_server()
        return self.findings.context_window if self.findings else None

    def _file(self) -> FindingsFile:
        return FindingsFile(find_endpoint(self._settings), self._cache)


class _Counted:
    """A model whose tokens are added up."""

    def __init__(self, inner: Model) -> None:
        self.name = inner.name
        self.usage = Usage()
        self._inner = inner

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        reply = await self._inner.reply(request, on_delta)
        self.usage += reply.usage
        return reply
