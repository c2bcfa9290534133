"""What travels between the runtime and a model: plain, immutable and cheap to pass around."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from headgate.first_use import dataclass

Role = Literal["system", "user", "assistant", "tool"]
Category = Literal["read", "write", "run", "reasoning", "control"]
Finish = Literal["stop", "calls", "length", "filtered"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in a reply. `arguments` is the JSON text as the model wrote it, broken or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a model is shown."""

    media_type: str
    """Such as `image/png`."""
    data: str
    """Its bytes in base64."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a transcript."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """Role `tool`: the call that this answers."""
    failed: bool = False
    """Role `tool`: the call did not succeed."""
    reasoning: str = ""
    """Role `assistant`: what the model thought before it answered, where the server tells."""
    opaque: str = ""
    """Role `assistant`: provider blocks (JSON) to be handed back unchanged, such as signed thinking."""
    images: tuple[Image, ...] = ()
    """Role `user`: what the model is shown besides the words."""
    wire: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """The encoded forms by wire format. A message is encoded once, when it is first sent."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or a sum over many."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """The part of `prompt` that the server had in its prefix cache."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached
        )


@dataclass(frozen=True, slots=True, eq=False)
class ToolSpec:
    """A tool as a model is shown it. Compared by identity, so a tuple of specs is a cheap cache key."""

    name: str
    description: str
    schema: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    """The JSON Schema of its arguments, or what makes it: most processes show a model few of the tools."""
    category: Category
    by_name: bool = False
    """Only stages that name it have it: every tool that a model is shown costs it tokens in every turn."""
    variants: tuple[str, ...] = ()
    """What it is given to choose from, where models may call a choice as if that were the tool."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        return self.schema() if callable(self.schema) else self.schema


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked: the messages it sees and the tools it may call."""

    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    """Overrides the model's own setting for this request."""
    max_tokens: int | None = None
    """Overrides the model's own setting for this request, like the two that follow."""
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts at which the reply ends, where the server can."""
    form: Mapping[str, Any] | None = None
    """A JSON schema that the reply is held to, where the server can."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields of this request's body: how a transport holds a reply to a form."""
    listed: tuple[ToolSpec, ...] = ()
    """What is sent in place of `tools` where a server has a list of them at the beginning of each prompt: the
    same in every request of a conversation, so that the server need not read all of it again."""
    withheld: frozenset[str] = frozenset()
    """Of `tools`, those that are of no use now: a form that replies are held to has no place for them."""
    enough: "Enough | None" = field(default=None, compare=False)
    """Given the reply's text piece by piece as it comes; True ends the reply there, where the server can."""
    chars: int = field(default=0, compare=False)
    """The size of its messages, as `size_of` counts, where it is known, so that no turn counts it again."""

    @property
    def shown(self) -> tuple[ToolSpec, ...]:
        """The list of tools that is sent."""
        return self.listed or self.tools


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a server took, in seconds, by its own clock."""

    load: float = 0.0
    """To load the model, where it was not in memory."""
    prompt: float = 0.0
    """To read the prompt."""
    completion: float = 0.0
    """To write the reply."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A server dropped a part of the prompt and did not say so."""

    sent: int
    """The tokens that were sent, by an estimate."""
    read: int
    """The tokens that the server says it read."""
    window: int | None = None
    """The server's context window, where it tells."""
    remedy: str = ""
    """What a person can do about it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    message: Message
    usage: Usage = Usage()
    finish: Finish = "stop"
    aside: Usage = Usage()
    """Tokens besides: of other requests that were needed on the way, such as those that find out how to call
    tools, and of this one where its server was stopped before it had counted."""
    timing: Timing | None = None
    """Where the server tells."""
    cut: Cut | None = None
    """Where the server read less than it was sent."""
    remark: str = ""
    """What a server could not do with the request, and what was done instead: a sentence for people."""
    estimated: bool = False
    """Whether some of the tokens were estimated, because the server did not count them."""
    sent: int = field(default=0, compare=False)
    """The size of the request in characters, as it was sent; 0 where nobody measured it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it streams, for people to watch; the loop uses whole replies only."""

    text: str = ""
    reasoning: str = ""
    arguments: str = ""
    tool: str = ""
    """The tool whose call is being written, as soon as its name is known."""
    read: tuple[int, int] | None = None
    """How many tokens of the prompt the server has read so far, and how many there are."""


OnDelta = Callable[[Delta], None]
Enough = Callable[[str], bool]


class OnPulse(Protocol):
    """Takes a sign of life that is not worth an event. See `Pulse` for its sources."""

    def __call__(self, source: str, text: str = "", done: int = 0, total: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sign of life that is not worth an event, for people who watch."""

    source: str
    """`files`: many files are read; the text says what for. `reading`: the prompt. `text`, `thinking`,
    `written`: pieces of a reply; `written` is part of a call. `call`: the name of the tool being called.
    `step`: a verification step starts. `start`: steps are run on the tree as it was at the task's start; the
    step, or nothing before the first. `again`: steps that failed are run once more, to find out about the
    failure. `command`: a line that a command printed."""
    text: str = ""
    done: int = 0
    """`reading`: tokens read so far; 0 if the server does not say. `files`: files read so far."""
    total: int = 0
    """`reading`: tokens of the prompt. `files`: how many there are; 0 if that is not known yet."""


class Model(Protocol):
    """Anything that answers requests.

    Raises ModelUnavailable, ModelRefused, ReplyInvalid or ContextOverflow; cancelling the task that awaits
    `reply` drops the request at once.
    """

    name: str

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply: ...


def written(message: Message) -> str:
    """What a model wrote, as one text: its words and its calls, or else its thoughts."""
    calls = (f"{call.name} {call.arguments}".strip() for call in message.calls)
    return "\n".join(filter(None, (message.content, *calls))) or message.reasoning


def clean_text(text: str) -> str:
    """Text that can be encoded as UTF-8: lone surrogates (undecodable bytes) become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text
