"""The server's own tool calls; calls that it leaves in the text are rescued from there."""

from headgate.core import Model, OnDelta, Reply, Request
from headgate.models.profile import Profile
from headgate.models.transports.replies import (
    explain_problem,
    paid_for,
    read_text,
    watch,
    with_one_call,
    with_parsed,
)
from headgate.models.transports.runaway import ask_for_calls


class NativeModel:
    """Passes requests on as they are, and splits the thinking off where the server did not."""

    def __init__(self, inner: Model, profile: Profile, *, rescue: bool) -> None:
        self.name = inner.name
        self.rescued = 0
        """Replies whose calls were in the text."""
        self._inner = inner
        self._profile = profile
        self._rescue = rescue

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply."""
        tools = request.tools if self._rescue else ()
        shown = watch(on_delta, tools, self._profile)
        reply = await ask_for_calls(self._inner, request, tools, self._profile, shown)
        with paid_for(reply):
            return self._read(reply, request)

    def _read(self, reply: Reply, request: Request) -> Reply:
        message = reply.message
        if not message.content:
            return with_one_call(reply, self._profile)
        tools = request.tools if self._rescue and not message.calls else ()
        parsed = read_text(reply, tools, self._profile)
        if parsed.calls:
            self.rescued += 1
        if tools and parsed.problems and not parsed.calls and reply.finish != "length":
            self.rescued += 1
            raise explain_problem(parsed.problems[0], tools)
        return with_one_call(with_parsed(reply, parsed, request), self._profile)
