"""Any reply, through each transport: calls to tools that exist with arguments that are an object, or a
correction; never anything else.

`HEADGATE_FUZZ` sets another number of replies, which are then others each time.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from local_model_server import ASK, TOOLS

from headgate.core import Finish, Message, Model, OnDelta, Reply, Request
from headgate.errors import ReplyInvalid
from headgate.models.profile import UNKNOWN, Profile
from headgate.models.schema_transport import SchemaModel
from headgate.models.text_transport import NativeModel, TextModel
from headgate.models.textcalls import NAMES
from headgate.models.textcalls.table import FAMILIES, FRAMES

WANTED = int(os.environ.get("HEADGATE_FUZZ", "0"))
EXAMPLES = WANTED or 1_500

TRANSPORTS: dict[str, Callable[[Model, Profile], Model]] = {
    "native with rescue": lambda model, profile: NativeModel(model, profile, rescue=True),
    "text": TextModel,
    "schema": SchemaModel,
}
NAMES_KNOWN = {tool.name for tool in TOOLS}
REQUEST = Request([ASK], TOOLS)

SAMPLES = [family.sample for family in (*FAMILIES, *FRAMES)]
OBJECTS = [
    '{"thought": "x", "name": "ls", "arguments": {"path": "."}}',
    '{"name": "write_file", "arguments": {"path": "a", "content": "b\\n\\"c\\"", "mode": "7"}}',
    '{"name": "rm", "arguments": {}}',
    '[{"name": "ls", "parameters": {}}, {"name": "stage_done", "arguments": "{\\"summary\\": \\"s\\"}"}]',
    '[ls(path="."), write_file(path="a", content="b")]',
    "<tool_call>\n<function=write_file>\n<parameter=content>\nx\n</parameter>\n</function>\n</tool_call>",
]
MARKS = [
    *("<think>", "</think>", "```", "```json\n", "~~~", "`", "\n", "For example:\n", "I look."),
    *("\ud800", "\0", "1e999", "-0", "NaN", "null", "true", "9" * 400, "[" * 40, '{"a":' * 40),
    *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|channel|>"),
    *("<function=ls>", "<parameter=path>", '<invoke name="ls">', "<arg_key>", "<tools>", "<|message|>"),
    *(">>>ls\n", "to=ls", '{"name": "ls"', '"arguments": ', "{", "}", "[", "]", '"', "'", ":", ","),
    *("\\", "\\u", "\\ud83d", "ls(", ")"),
]
PIECES = [*SAMPLES, *OBJECTS, *MARKS, *MARKS]
PROFILES = [
    UNKNOWN,
    Profile(name="t", opens_thinking=True),
    Profile(name="o", one_call=True),
    *(Profile(name=name, calls=name) for name in sorted(NAMES)),
]


def compose(plan: bytes) -> str:
    """A reply made of pieces of real formats, of pieces that are cut off, and of raw bytes.

    One draw of bytes that say what to take is much cheaper than a draw for each piece.
    """
    left, parts = iter(plan), []
    for byte in left:
        if byte < len(PIECES):
            parts.append(PIECES[byte])
        elif byte % 2:
            whole = PIECES[next(left, 0) % (len(SAMPLES) + len(OBJECTS))]
            parts.append(whole[next(left, 0) % 8 : next(left, 0) % (len(whole) + 1)])
        else:
            count = next(left, 0) % 16
            parts.append(bytes(next(left, 0) for _ in range(count)).decode("utf-8", "replace"))
    return "".join(parts)


class Saying:
    """A model that says what a test gives it. It never waits, so that no event loop is needed."""

    name = "openai/saying"

    def __init__(self) -> None:
        self.next = Reply(Message("assistant"))

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        return self.next


def result(asking: Coroutine[Any, Any, Reply]) -> Reply:
    """The result of a coroutine that never waits."""
    try:
        asking.send(None)
    except StopIteration as ended:
        reply: Reply = ended.value
        return reply
    raise AssertionError("it waited")


def outcome(model: Model) -> str:
    """What became of a reply, after a look at all that has to hold of it."""
    try:
        message = result(model.reply(REQUEST)).message
    except ReplyInvalid as error:
        return "corrections" if str(error) else "corrections without a word"
    assert len({call.id for call in message.calls}) == len(message.calls)
    for call in message.calls:
        assert call.name in NAMES_KNOWN
        assert isinstance(json.loads(call.arguments), dict)
    return "calls" if message.calls else "words"


def test_any_reply_gives_calls_or_a_correction(record_property: Callable[[str, object], None]) -> None:
    inner = Saying()
    models = [(name, wrap(inner, profile)) for name, wrap in TRANSPORTS.items() for profile in PROFILES]
    tried: Counter[tuple[str, str]] = Counter()

    @settings(max_examples=EXAMPLES, derandomize=not WANTED, phases=(Phase.generate, Phase.shrink))
    @given(st.binary(max_size=24), st.integers(0, 3 * len(models) - 1))
    def any_reply(plan: bytes, circumstances: int) -> None:
        finish: Finish = "length" if circumstances % 3 == 0 else "stop"
        inner.next = Reply(Message("assistant", compose(plan)), finish=finish)
        name, model = models[circumstances // 3]
        tried[name, outcome(model)] += 1

    any_reply()
    for (name, kind), count in tried.items():
        record_property(f"fuzz: replies through {name}", count)
        record_property(f"fuzz: {kind} from replies", count)
    # Each of the three is met often with each of the transports.
    assert set(tried) == {(name, kind) for name in TRANSPORTS for kind in ("calls", "corrections", "words")}
    assert min(tried.values()) > EXAMPLES // 200
