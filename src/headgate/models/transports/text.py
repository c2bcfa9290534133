"""Reading calls from the text of a reply, for servers that do not support calls or leave some in the text."""

from dataclasses import replace

from headgate.core import Message, Model, OnDelta, Reply, Request, ToolCall, ToolSpec
from headgate.models.profile import Profile
from headgate.models.transports.rendering import Rendering, describe_tools
from headgate.models.transports.replies import (
    charge_errors,
    explain_problem,
    read_text,
    sort_stream,
    with_one_call,
    with_parsed,
    without_unknown_calls,
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
        shown = sort_stream(on_delta, tools)
        reply = await ask_for_calls(self._inner, request, tools, self._profile, shown)
        with charge_errors(reply):
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


_FORM = """# Tools

Call a tool by writing exactly this, with its arguments as JSON:
<tool_call>
{{"name": "{name}", "arguments": {{}}}}
</tool_call>
{number} The result follows in <tool_response>; never write one yourself.
The tools (? marks optional arguments):
{tools}"""


class TextModel:
    """Describes the tools in the system message and reads the calls from the reply."""

    def __init__(self, inner: Model, profile: Profile) -> None:
        self.name = inner.name
        self._inner = inner
        self._profile = profile
        self._rendering = Rendering(self._tell, _write, profile.needs_reasoning_back)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply; ReplyInvalid where it attempts calls and none can be run."""
        tools = request.tools
        rendered = self._rendering.render(request.messages, tools)
        asked = replace(request, messages=rendered, tools=())
        shown = sort_stream(on_delta, tools)
        reply = await ask_for_calls(self._inner, asked, tools, self._profile, shown)
        with charge_errors(reply):
            return self._read(reply, request)

    def _read(self, reply: Reply, request: Request) -> Reply:
        tools = request.tools
        reply = replace(reply, message=without_unknown_calls(reply.message, tools))
        parsed = read_text(reply, tools, self._profile)
        # Of a reply that was cut off the runtime tells the model by itself.
        if parsed.problems and not (parsed.calls or reply.message.calls) and reply.finish != "length":
            raise explain_problem(parsed.problems[0], tools)
        return with_one_call(with_parsed(reply, parsed, request), self._profile)

    def _tell(self, tools: tuple[ToolSpec, ...]) -> str:
        number = (
            "Write one call per reply." if self._profile.one_call else "You may write several calls in a row."
        )
        return _FORM.format(name=tools[0].name, number=number, tools=describe_tools(tools))


def _write(message: Message) -> str:
    return "\n".join(part for part in (message.content, *map(_write_call, message.calls)) if part)


def _write_call(call: ToolCall) -> str:
    # The arguments as the model wrote them: they were JSON, or the result says why not.
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'
