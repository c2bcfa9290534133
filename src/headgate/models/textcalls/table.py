"""The table of all families of models and how they write calls. A new family is a new entry."""

import re
from collections.abc import Callable, Mapping
from functools import partial

from headgate.first_use import dataclass, regex
from headgate.models.textcalls.json_families import read_behind_name, read_gemma, read_marked
from headgate.models.textcalls.message_families import (
    HARMONY_START,
    KIMI_TAG,
    MINIMAX_MARK,
    MUSE_HEADER,
    read_harmony,
    read_inkling,
    read_kimi_k3,
    read_minimax,
    read_muse,
)
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import CallsFound, Opening, ReplyPart
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.xml_families import read_glm, read_invoke, read_qwen


@dataclass(frozen=True, slots=True)
class Family:
    """A way to write calls, each with its own mark."""

    name: str
    opening: str
    """A pattern that begins with a literal character and matches the text which begins a call."""
    closings: tuple[str, ...]
    """The marks that may end a call."""
    read: Callable[[Source, Opening, ToolBook], CallsFound | None]
    """The calls that begin with this opening; None where there is none after all."""
    sample: str
    """How a call looks, for the documentation."""
    models: str
    """Who writes calls so."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A family whose marks divide the whole reply into messages."""

    name: str
    mark: re.Pattern[str]
    """What a reply of this family has before its first call."""
    read: Callable[[Source, ToolBook], list[ReplyPart]]
    """The reply in parts."""
    sample: str
    models: str
    hinted_mark: re.Pattern[str] | None = None
    """What is enough where the model is known to be of this family."""
    whole_batch: bool = False
    """One bad call spoils all of them."""


_JSON = '{"name": "ls", "arguments": {}}'
_SEPARATOR = "<[|｜]tool[▁_]sep[|｜]>"
_TAGS = (
    "TOOLCALL|tool_calls|function_calls|longcat_tool_call|dots_function_call|function_call|functioncall"
    "|tool_use|tools|tool"
)


def _behind(head: str) -> Callable[[Source, Opening, ToolBook], CallsFound | None]:
    """Reads arguments as JSON behind a name, which this pattern matches."""
    return partial(read_behind_name, head=regex(rf"\s*+{head}\s*+(?=\{{)"))


FAMILIES: tuple[Family, ...] = (
    Family(
        "hermes",
        "<tool_call>",
        ("</tool_call>",),
        read_marked,
        f"<tool_call>{_JSON}</tool_call>",
        "Hermes, Qwen 2.5 and 3, QwQ, Granite 4, Reka, ERNIE",
    ),
    Family(
        "glm",
        "<tool_call>",
        ("</tool_call>",),
        read_glm,
        "<tool_call>ls<arg_key>path</arg_key><arg_value>.</arg_value></tool_call>",
        "GLM 4.5 to 4.7, Hunyuan, Poolside",
    ),
    Family(
        "qwen-coder",
        "<function=",
        ("</function>",),
        read_qwen,
        "<tool_call><function=ls><parameter=path>.</parameter></function></tool_call>",
        "Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5, Seed-OSS, Functionary 3.1",
    ),
    Family(
        "invoke",
        r"<(?P<prefix>(?:(?!atem)\w{1,12}:|[|｜]DSML[|｜])?)invoke\s{1,4}name=",
        ("</invoke>",),
        read_invoke,
        '<invoke name="ls"><parameter name="path">.</parameter></invoke>',
        "MiniMax M2, DeepSeek V3.2 and V4, Step 3, dots, Claude",
    ),
    Family(
        "minicpm",
        r"<function\s{1,4}name=",
        ("</function>",),
        partial(read_invoke, outer="function", inner="param"),
        '<function name="ls"><param name="path">.</param></function>',
        "MiniCPM 5",
    ),
    Family(
        "minimax",
        re.escape(MINIMAX_MARK) + '<invoke name="',
        (f"{MINIMAX_MARK}</invoke>",),
        read_minimax,
        MINIMAX_MARK + '<invoke name="ls">...',
        "MiniMax M3",
    ),
    Family(
        "mistral", r"\[TOOL_CALLS\]", (), read_marked, f"[TOOL_CALLS][{_JSON}]", "Mistral Nemo, Mistral 7B"
    ),
    Family(
        "mistral-named",
        r"\[TOOL_CALLS\]",
        (),
        _behind(r"(?P<name>[\w.\-]{1,128}+)\s*+(?:\[CALL_ID\](?P<id>[\w\-]{1,64}+))?\s*+(?:\[ARGS\])?"),
        '[TOOL_CALLS]ls[ARGS]{"path": "."}',
        "Mistral Small 3.2, Ministral 3, Devstral, Magistral",
    ),
    Family(
        "kimi",
        r"<\|tool_call_begin\|>",
        ("<|tool_call_end|>",),
        _behind(
            r"(?P<id>(?:functions\.)?(?P<name>[\w.\-]{1,128}+)(?::\d{1,9}+)?)\s*+<\|tool_call_argument_begin\|>"
        ),
        "<|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "Kimi K2",
    ),
    Family(
        "deepseek",
        r"<[|｜]tool[▁_]call[▁_]begin[|｜]>",
        ("<｜tool▁call▁end｜>", "<|tool_call_end|>"),
        _behind(
            rf"(?:function\s*+{_SEPARATOR}\s*+)?(?P<name>[\w.\-]{{1,128}}+)\s*+(?:{_SEPARATOR}|```json|```)?"
        ),
        "<｜tool▁call▁begin｜>ls<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        "DeepSeek R1, V3, V3.1",
    ),
    Family(
        "gemma",
        r"<\|tool_call>",
        ("<tool_call|>",),
        read_gemma,
        '<|tool_call>call:ls{path:<|"|>.<|"|>}<tool_call|>',
        "Gemma 4",
    ),
    Family("llama", r"<\|python_tag\|>", (), read_marked, f"<|python_tag|>{_JSON}", "Llama 3.1 to 3.3"),
    Family(
        "lfm2",
        r"<\|(?:tool_call|python)_start\|>",
        ("<|tool_call_end|>", "<|python_end|>"),
        partial(read_marked, pythonic=True),
        '<|tool_call_start|>[ls(path=".")]<|tool_call_end|>',
        "LFM2, LFM2.5; Llama 4, with `python` in place of `tool_call`",
    ),
    Family(
        "cohere",
        r"<\|START_ACTION\|>",
        ("<|END_ACTION|>",),
        read_marked,
        '<|START_ACTION|>[{"tool_name": "ls", "parameters": {}}]<|END_ACTION|>',
        "Command R7B, Command A",
    ),
    Family(
        "apertus",
        r"<\|tools_prefix\|>",
        ("<|tools_suffix|>",),
        partial(read_marked, keyed=True),
        '<|tools_prefix|>[{"ls": {"path": "."}}]<|tools_suffix|>',
        "Apertus",
    ),
    Family(
        "granite",
        r"<\|(?:tool|function)_call\|>",
        ("<|/tool_call|>",),
        read_marked,
        f"<|tool_call|>[{_JSON}]",
        "Granite 3, Phi 4 mini, GigaChat 3",
    ),
    Family(
        "tagged",
        f"<(?:{_TAGS})>",
        tuple(f"</{tag}>" for tag in _TAGS.split("|")),
        partial(read_marked, pythonic=True),
        f"<TOOLCALL>[{_JSON}]</TOOLCALL>",
        "Nemotron Nano 2, Apriel, Jamba, dots, LongCat, Qwen 2.5 Coder (`<tools>`), Hermes variants",
    ),
    Family(
        "firefunction", r"functools(?=\[)", (), read_marked, f"functools[{_JSON}]", "Firefunction 2, Phi 4"
    ),
)
"""Families that mark each call. Where two share a mark, they are tried in this order."""

FRAMES: tuple[Frame, ...] = (
    Frame(
        "harmony",
        regex(rf"\A{HARMONY_START}"),
        read_harmony,
        '<|channel|>commentary to=functions.ls<|message|>{"path": "."}',
        "gpt-oss",
    ),
    Frame(
        "muse",
        regex(rf"\A{MUSE_HEADER}"),
        read_muse,
        'to=ls<|message|><atem:function_calls><atem:invoke name="ls">...',
        "Muse Glimmer",
        hinted_mark=regex(r"\A.{0,389}<\|message\|>", re.DOTALL),
    ),
    Frame(
        "inkling",
        regex(r"<\|message_model\|>|<\|content_invoke_tool_(?:json|text)\|>"),
        read_inkling,
        '<|message_model|>ls<|content_invoke_tool_json|>{"name": "ls", "args": {}}<|end_message|>',
        "Inkling",
        whole_batch=True,
    ),
    Frame(
        "kimi-k3",
        regex(KIMI_TAG),
        read_kimi_k3,
        '<|open|>call tool="ls" index="1"<|sep|>...<|close|>call<|sep|>',
        "Kimi K3",
    ),
)
"""Families that divide the whole reply."""

PLAIN: Mapping[str, tuple[str, str]] = {
    "json": (_JSON, "any: an object or a list that begins the reply or ends it"),
    "fence": (
        f"~~~json {_JSON} ~~~",
        "any: a code block, of either kind, that begins the reply or ends it; Command R+",
    ),
    "pythonic": ('[ls(path="."), search(pattern="x")]', "Llama 3.2 and 4, xLAM"),
}
"""Forms without a mark of their own: sample and models."""

NAMES = frozenset((*(family.name for family in FAMILIES), *(frame.name for frame in FRAMES), *PLAIN))
OPENINGS: Mapping[str, tuple[Family, ...]] = {
    family.opening: tuple(other for other in FAMILIES if other.opening == family.opening)
    for family in FAMILIES
}
