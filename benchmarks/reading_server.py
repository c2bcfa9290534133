"""A llama.cpp server that really reads each prompt, behind replies that are written beforehand.

    python benchmarks/reading_server.py MODEL [alone] < replies.json

It prints its port. Each request goes to llama.cpp, which reads it and writes one token; the answer is the
next of the replies, which are assistant messages, or what `server.py` answers if the address does not say
`scripted`. GET /read tells what was read, but for sessions that warm up. llama.cpp has one slot, and keeps
other conversations in memory, as it does by default; with `alone`, only the latest. Its chat template has the
form of most: the system message, then all tools, then what was said.
"""

import asyncio
import json
import sys
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from server import Connection, Server, as_stream, completion

TEMPLATE = """\
{%- set first = messages[0].content if messages[0].role == 'system' else '' %}
{{- '<|im_start|>system\\n' + first }}
{%- if tools %}
{{- '\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\\n</tools>\\n\\nFor each function call, return a json object in <tool_call></tool_call> tags:\\n' }}
{{- '<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
"""Written after the one of Qwen2.5."""
CONTEXT = 32_768
Tools = Sequence[dict[str, Any]]


@dataclass
class Read:
    """What llama.cpp read in one session."""

    requests: int
    first: int
    """Tokens of the first request."""
    evaluated: int
    unavoidable: int
    """Of each request, the tokens behind the longest beginning that it shares with one before it, if all
    conversations with the same system message had one list of tools: all that were sent in them."""
    again: int
    """Of these, the tokens of messages that were sent before: somebody cut or rewrote a conversation."""
    replies_left: int


class LlamaCpp:
    """The server, in this process."""

    def __init__(self, model: str, *, alone: bool) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = model
        params.hostnames, params.port = ["127.0.0.1"], 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.n_ctx, params.n_parallel, params.n_gpu_layers = CONTEXT, 1, 0
        params.warmup = params.ui = params.fit_params = False
        params.use_jinja = params.offline = True
        params.chat_template = TEMPLATE
        if alone:
            params.cache_ram_mib = 0
        self._server = xllamacpp.Server(params)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """What it answers."""
        asked = urllib.request.Request(
            f"{self._server.listening_address}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)

    def read(self, messages: Any, tools: Tools) -> dict[str, int]:
        """Reads a prompt and writes one token; the server's own counts."""
        body = {"messages": messages, "max_tokens": 1, "cache_prompt": True}
        return dict(self.post("/v1/chat/completions", body | ({"tools": tools} if tools else {}))["timings"])

    def tokens(self, messages: Any, tools: Tools) -> list[int]:
        """A prompt as the model is shown it."""
        body = {"messages": messages} | ({"tools": tools} if tools else {})
        return self.words(self.post("/apply-template", body)["prompt"])

    def words(self, text: str) -> list[int]:
        """A text as tokens."""
        return list(self.post("/tokenize", {"content": text, "parse_special": True})["tokens"])


class ReadingServer(Server):
    """Has each request read, and answers it."""

    def __init__(self, llama: LlamaCpp, replies: list[dict[str, Any]]) -> None:
        super().__init__()
        self._llama = llama
        self._replies = replies
        self._asked: list[tuple[Any, Tools]] = []
        self._evaluated: list[dict[str, int]] = []

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer to a request."""
        key = path.strip("/").split("/")[0]
        if path == "/read":
            return 200, "application/json", json.dumps(asdict(self._sum())).encode()
        if method != "POST" or not path.endswith("/chat/completions"):
            return super().answer(method, path, body)
        asked = json.loads(body)
        if not key.endswith("-warm"):
            messages, tools = asked["messages"], asked.get("tools") or []
            self._asked.append((messages, tools))
            self._evaluated.append(self._llama.read(messages, tools))
        if "/scripted/" not in path:
            return super().answer(method, path, body)
        if not self._replies:
            return 400, "application/json", b'{"error": {"message": "no reply is left"}}'
        answer = completion(self._replies.pop(0), len(body))
        if asked.get("stream"):
            return 200, "text/event-stream", as_stream(answer)
        return 200, "application/json", json.dumps(answer).encode()

    def _sum(self) -> Read:
        asked, llama = self._asked, self._llama
        tools = {_family(messages): dict[str, Any]() for messages, _ in asked}
        for messages, sent in asked:
            for tool in sent:
                tools[_family(messages)].setdefault(tool["function"]["name"], tool)
        lists = [list(tools[_family(messages)].values()) for messages, _ in asked]
        prompts = [llama.tokens(messages, every) for (messages, _), every in zip(asked, lists, strict=True)]
        known = Counter[str]()
        unavoidable = again = 0
        for number, ((messages, _), prompt) in enumerate(zip(asked, prompts, strict=True)):
            behind = len(prompt) - max((common(prompt, earlier) for earlier in prompts[:number]), default=0)
            here = Counter[str]()
            new = []
            for message in messages:
                here[json.dumps(message)] += 1
                if here[json.dumps(message)] > known[json.dumps(message)]:
                    new.append(message)
            known |= here
            unavoidable += behind
            again += max(behind - len(llama.tokens(new, ())), 0) if number else 0
        counts = self._evaluated
        return Read(
            requests=len(asked),
            first=counts[0]["prompt_n"] + counts[0]["cache_n"] if counts else 0,
            evaluated=sum(one["prompt_n"] for one in counts),
            unavoidable=unavoidable,
            again=again,
            replies_left=len(self._replies),
        )


def _family(messages: Any) -> str:
    return str(messages[0]["content"]) if messages[0]["role"] == "system" else ""


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two prompts have in common at their beginning."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


async def serve(model: str, *, alone: bool) -> None:
    """Says its port, and serves until it is ended."""
    server = ReadingServer(LlamaCpp(model, alone=alone), json.load(sys.stdin))
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
    print(f"port {listening.sockets[0].getsockname()[1]}", flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], alone="alone" in sys.argv[2:]))
