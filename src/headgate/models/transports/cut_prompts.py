"""A prompt that a server cuts off without a word, noticed by the tokens that the server says it read.

Ollama does so when a prompt is longer than its context window. A count that is low proves nothing by itself:
some servers leave out what they had in their cache. So a low count is a reason to ask the server for its
window, and only a prompt that cannot fit that window counts as cut. Where the server does not tell, only the
first request of a conversation counts, and only a count that is large enough to be a whole window.
"""

from dataclasses import replace

from headgate.core import CHARS_PER_TOKEN, Cut, Model, ModelSettings, OnDelta, Reply, Request
from headgate.models.encoding import EncodedTools
from headgate.models.endpoint import DEFAULT_NUM_CTX, find_endpoint
from headgate.models.servers import ServerKind, ask_loaded_window, ask_window, identify_server
from headgate.models.wire.openai import encode_tools

LOW = 0.7
"""A count below this share of the estimate is a reason to ask."""
ABOVE = 1.2
"""The estimate has to be so many times the window: it is no more than an estimate."""
LEAST_WINDOW = 1024
"""No server is started with less."""


class CutPromptDetector:
    """Passes requests on, and marks replies to prompts that were cut."""

    def __init__(self, inner: Model, settings: ModelSettings) -> None:
        self.name = inner.name
        self._inner = inner
        self._settings = settings
        self._endpoint = find_endpoint(settings)
        self._tools = EncodedTools(encode_tools)
        self._asked: tuple[ServerKind, int | None] | None = None

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply."""
        reply = await self._inner.reply(request, on_delta)
        read = reply.usage.prompt
        if not read:
            return reply
        # What was sent has just been encoded; only its size is looked at.
        talk = sum(len(message.wire.get(self._endpoint.provider, b"")) for message in request.messages)
        talk //= CHARS_PER_TOKEN
        sent = talk + len(self._tools.get(request.tools)) // CHARS_PER_TOKEN
        if sent < LEAST_WINDOW or read >= LOW * sent:
            return reply
        kind, window = await self._ask()
        if window is not None:
            is_cut = sent > ABOVE * window and read <= window
        else:
            opening = all(message.role != "assistant" for message in request.messages)
            # Some servers do not show a model its tools; that is not what is looked for here.
            is_cut = opening and LEAST_WINDOW <= read < talk / 2
        if not is_cut:
            return reply
        return replace(reply, cut=Cut(sent, read, window, explain_remedy(kind, self._endpoint.model)))

    async def _ask(self) -> tuple[ServerKind, int | None]:
        """The kind of the server and its window, asked for once."""
        if self._asked is None:
            endpoint, timeouts = self._endpoint, self._settings.timeouts
            kind, window = await identify_server(endpoint, timeouts)
            if kind in ("ollama", "ollama-api"):
                window = await ask_loaded_window(endpoint, timeouts)
            else:
                window = await ask_window(endpoint, timeouts, kind) or window
            if kind == "ollama-api" and window is None:
                window = self._settings.num_ctx or DEFAULT_NUM_CTX
            self._asked = kind, window
        return self._asked


def explain_remedy(kind: ServerKind, model: str) -> str:
    """What a person can do about a context window that is too small."""
    match kind:
        case "ollama":
            return (
                f"Write model: ollama/{model}, for which Headgate sets the window, "
                "or start Ollama with OLLAMA_CONTEXT_LENGTH=32768 ollama serve"
            )
        case "ollama-api":
            return "Set a larger num_ctx for this model in `models`"
        case "lmstudio":
            return "Load the model with a larger context length in LM Studio"
    return "Start the model server with a larger context window"
