"""Settings that more than one package reads, as `agent.yaml` holds them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from headgate.core.messages import Usage

OWN_FOLDER = ".headgate"
"""Where Headgate keeps its own files in a repository."""
COMMANDS_FOLDER = f"{OWN_FOLDER}/commands"
"""Where a team keeps its commands for the terminal: the only part of that folder that git may have."""
ToolTransport = Literal["auto", "native", "text", "schema"]


class Data(BaseModel):
    """Frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Settings(Data):
    """A part of `agent.yaml`."""


def package_of(config: Mapping[str, Any]) -> str:
    """The package of a monorepo that a configuration names, as it is in the log; empty if there is none."""
    return str(config.get("monorepo", {}).get("package", ""))


class Timeouts(Settings):
    """How long a model server may stay silent, in seconds."""

    connect: float = Field(10, gt=0)
    """Until the connection is established."""
    first_token: float = Field(600, gt=0)
    """Until the first piece of the reply: a local model reads the whole prompt first."""
    idle: float = Field(120, gt=0)
    """Between two pieces of a reply."""
    reply: float = Field(1800, gt=0)
    """For a whole reply: a longer one is cut off."""


class Price(Settings):
    """What a million tokens cost, in whatever money you count in."""

    input: float = Field(0, ge=0)
    """Tokens read."""
    cached: float | None = Field(None, ge=0)
    """Tokens read from the server's cache; absent: the same price as `input`."""
    output: float = Field(0, ge=0)
    """Tokens written."""

    def of(self, prompt: int, cached: int, completion: int) -> float:
        """The cost of one reply."""
        for_cached = self.input if self.cached is None else self.cached
        fresh = max(prompt - cached, 0)
        return (fresh * self.input + cached * for_cached + completion * self.output) / 1_000_000


class ModelSettings(Settings):
    """One model and how to reach it."""

    model: str
    """`ollama/NAME`, `openai/NAME` for any compatible server, `anthropic/NAME`, or `script:FILE`."""
    base_url: str | None = None
    """The server's address, such as `http://localhost:11434/v1`."""
    api_key: SecretStr | None = None
    """The key for the server; HEADGATE_API_KEY is a better place than a file."""
    temperature: float | None = Field(None, ge=0)
    """Sampling temperature; absent: the server decides."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling; absent: the server decides."""
    max_tokens: int | None = Field(None, gt=0)
    """The longest reply, in tokens; absent: the server decides. A request asks for less where its stage or
    the context window has room for less."""
    seed: int | None = None
    """For servers that can sample repeatably."""
    context_window: int | None = Field(None, gt=0)
    """The model's context window in tokens; the history is compacted before the window is full."""
    tool_transport: ToolTransport | None = None
    """How the model calls tools: `native` through the server, as `text`, through a JSON `schema`, or in the
    way that a probe finds to work (`auto`). Absent: `native`, until that fails."""
    timeouts: Timeouts = Timeouts()
    """How many seconds the server may be silent (`connect`, `first_token`, `idle`) or a reply may take
    (`reply`)."""
    num_ctx: int | None = Field(None, ge=1024, le=1_048_576)
    """Only `ollama/NAME`: the context window, in tokens, that Ollama gives the model for a request. Absent:
    `context_window`, else 16384, and never more than the model supports. A larger one needs more memory."""
    keep_alive: str | int | None = None
    """Only `ollama/NAME`: how long the model stays in memory after a request, such as `30m`, a number of
    seconds, or -1 for ever; absent: `15m`."""
    think: bool | Literal["low", "medium", "high"] | None = None
    """Only `ollama/NAME`: whether the model thinks before it answers; absent: Ollama decides."""
    images: bool | None = None
    """Whether the model can be shown images, such as `@shot.png` in a task. Absent: as far as it is known of
    OpenAI's and Anthropic's own models, and otherwise not."""
    price: Price = Price()
    """The price of a million tokens: `input`, `cached` and `output`; for the report and `limits: {cost}`.
    Absent: the list price, if it is known."""
    headers: dict[str, str] = {}
    """Extra HTTP headers."""
    extra_body: dict[str, Any] = {}
    """Extra fields in the request's body, for options that only some servers know."""

    @property
    def known_price(self) -> Price | None:
        """None where nobody has said what the model costs. A price of 0 is a price."""
        return self.price if "price" in self.model_fields_set else None


class VerifyStep(Settings):
    """One command of the verification."""

    name: str = Field(min_length=1)
    """A short name, shown in reports."""
    command: str = Field(min_length=1)
    """The command. The shell runs it in the repository's root, or in the package of a monorepo."""
    timeout: float = Field(600, gt=0)
    """In seconds; a step that takes longer fails."""


# Hard caps on a whole task, sub-runs included. At one, the model may conclude, and the task ends.


class Limits(Settings):
    """What a task may use. None: no cap."""

    turns: int | None = Field(None, ge=1)
    """The model's replies, across all stages. The budgets of the stages limit them in any case."""
    tokens: int | None = Field(None, ge=1)
    """Tokens read and written."""
    seconds: float | None = Field(None, gt=0)
    """Time since the task started, without the time it waited for `apply` or was interrupted. Then everything
    stops. The last fifth of it, but at most a minute, is for the end: the current reply or command is cut
    off, and the model can only conclude."""
    cost: float | None = Field(None, gt=0)
    """Cost, by the prices in `models`."""
    model_wait: float = Field(600, ge=0, allow_inf_nan=False)
    """Seconds to wait for a model server that goes away after it has answered in the task, or that is loading
    its model. After that the task ends with INFRA_ERROR."""

    @property
    def working_seconds(self) -> float | None:
        """The part of `seconds` in which the task works; the rest is for the end."""
        return None if self.seconds is None else self.seconds - min(self.seconds / 5, 60.0)

    def reached(self, requests: int, usage: Usage, seconds: float, cost: float) -> str:
        """The cap that is reached, by its slug; empty if none is."""
        if self.turns is not None and requests >= self.turns:
            return "limit_turns"
        if self.tokens is not None and usage.prompt + usage.completion >= self.tokens:
            return "limit_tokens"
        if self.working_seconds is not None and seconds >= self.working_seconds:
            return "limit_seconds"
        if self.cost is not None and cost >= self.cost:
            return "limit_cost"
        return ""
