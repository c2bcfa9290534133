"""The table of all families of models and how they write calls. A new family is a new entry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headgate.models.textcalls.json_families import GemmaCall, MarkedJson, NamedJson
from headgate.models.textcalls.message_families import (
    MARK,
    Harmony,
    Inkling,
    KimiK3,
    MiniMaxTree,
    MuseGlimmer,
)
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import CallsFound, ReplyPart
from headgate.models.textcalls.source import Source
from headgate.models.textcalls.xml_families import GlmCall, InvokeCall, QwenCall

# What a family of models' way to write calls is to the scanner.


class Reader(Protocol):
    """Reads the calls of one family."""

    @property
    def closings(self) -> tuple[str, ...]:
        """The marks that may end a call."""

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> CallsFound | None:
        """The calls that begin with this opening; None where there is none after all."""


@dataclass(frozen=True, slots=True)
class Family:
    """One way to write calls."""

    name: str
    opening: str
    """A pattern that begins with a literal character and matches the text which begins a call."""
    reader: Reader
    sample: str
    """How a call looks, for the documentation."""
    models: str
    """Who writes calls so."""


_JSON = '{"name": "ls", "arguments": {}}'
_SEPARATOR = "<[|｜]tool[▁_]sep[|｜]>"
_TAGS = (
    "TOOLCALL|tool_calls|function_calls|longcat_tool_call|dots_function_call|function_call|functioncall"
    "|tool_use|tools|tool"
)


class Frame(Protocol):
    """A family whose marks divide the whole reply into messages."""

    name: str
    sample: str
    models: str
    whole_batch: bool

    def claims(self, text: str, hinted: bool) -> bool:
        """Whether a reply is of this family."""

    def read(self, source: Source, book: ToolBook) -> list[ReplyPart]:
        """The reply in parts."""


FAMILIES: tuple[Family, ...] = (
    Family(
        "hermes",
        "<tool_call>",
        MarkedJson("</tool_call>"),
        f"<tool_call>{_JSON}</tool_call>",
        "Hermes, Qwen 2.5 and 3, QwQ, Granite 4, Reka, ERNIE",
    ),
    Family(
        "glm",
        "<tool_call>",
        GlmCall(),
        "<tool_call>ls<arg_key>path</arg_key><arg_value>.</arg_value></tool_call>",
        "GLM 4.5 to 4.7, Hunyuan, Poolside",
    ),
    Family(
        "qwen-coder",
        "<function=",
        QwenCall(),
        "<tool_call><function=ls><parameter=path>.</parameter></function></tool_call>",
        "Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5, Seed-OSS, Functionary 3.1",
    ),
    Family(
        "invoke",
        r"<(?P<prefix>(?:(?!atem)\w{1,12}:|[|｜]DSML[|｜])?)invoke\s{1,4}name=",
        InvokeCall(),
        '<invoke name="ls"><parameter name="path">.</parameter></invoke>',
        "MiniMax M2, DeepSeek V3.2 and V4, Step 3, dots, Claude",
    ),
    Family(
        "minicpm",
        r"<function\s{1,4}name=",
        InvokeCall("function", "param"),
        '<function name="ls"><param name="path">.</param></function>',
        "MiniCPM 5",
    ),
    Family(
        "minimax",
        re.escape(MARK) + '<invoke name="',
        MiniMaxTree(),
        MARK + '<invoke name="ls">...',
        "MiniMax M3",
    ),
    Family("mistral", r"\[TOOL_CALLS\]", MarkedJson(), f"[TOOL_CALLS][{_JSON}]", "Mistral Nemo, Mistral 7B"),
    Family(
        "mistral-named",
        r"\[TOOL_CALLS\]",
        NamedJson(r"(?P<name>[\w.\-]{1,128}+)\s*+(?:\[CALL_ID\](?P<id>[\w\-]{1,64}+))?\s*+(?:\[ARGS\])?"),
        '[TOOL_CALLS]ls[ARGS]{"path": "."}',
        "Mistral Small 3.2, Ministral 3, Devstral, Magistral",
    ),
    Family(
        "kimi",
        r"<\|tool_call_begin\|>",
        NamedJson(
            r"(?P<id>(?:functions\.)?(?P<name>[\w.\-]{1,128}+)(?::\d{1,9}+)?)\s*+<\|tool_call_argument_begin\|>",
            "<|tool_call_end|>",
        ),
        "<|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "Kimi K2",
    ),
    Family(
        "deepseek",
        r"<[|｜]tool[▁_]call[▁_]begin[|｜]>",
        NamedJson(
            rf"(?:function\s*+{_SEPARATOR}\s*+)?(?P<name>[\w.\-]{{1,128}}+)\s*+(?:{_SEPARATOR}|```json|```)?",
            "<｜tool▁call▁end｜>",
            "<|tool_call_end|>",
        ),
        "<｜tool▁call▁begin｜>ls<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        "DeepSeek R1, V3, V3.1",
    ),
    Family(
        "gemma",
        r"<\|tool_call>",
        GemmaCall(),
        '<|tool_call>call:ls{path:<|"|>.<|"|>}<tool_call|>',
        "Gemma 4",
    ),
    Family("llama", r"<\|python_tag\|>", MarkedJson(), f"<|python_tag|>{_JSON}", "Llama 3.1 to 3.3"),
    Family(
        "lfm2",
        r"<\|(?:tool_call|python)_start\|>",
        MarkedJson("<|tool_call_end|>", "<|python_end|>", pythonic=True),
        '<|tool_call_start|>[ls(path=".")]<|tool_call_end|>',
        "LFM2, LFM2.5; Llama 4, with `python` in place of `tool_call`",
    ),
    Family(
        "cohere",
        r"<\|START_ACTION\|>",
        MarkedJson("<|END_ACTION|>"),
        '<|START_ACTION|>[{"tool_name": "ls", "parameters": {}}]<|END_ACTION|>',
        "Command R7B, Command A",
    ),
    Family(
        "apertus",
        r"<\|tools_prefix\|>",
        MarkedJson("<|tools_suffix|>", keyed=True),
        '<|tools_prefix|>[{"ls": {"path": "."}}]<|tools_suffix|>',
        "Apertus",
    ),
    Family(
        "granite",
        r"<\|(?:tool|function)_call\|>",
        MarkedJson("<|/tool_call|>"),
        f"<|tool_call|>[{_JSON}]",
        "Granite 3, Phi 4 mini, GigaChat 3",
    ),
    Family(
        "tagged",
        f"<(?:{_TAGS})>",
        MarkedJson(*(f"</{tag}>" for tag in _TAGS.split("|")), pythonic=True),
        f"<TOOLCALL>[{_JSON}]</TOOLCALL>",
        "Nemotron Nano 2, Apriel, Jamba, dots, LongCat, Qwen 2.5 Coder (`<tools>`), Hermes variants",
    ),
    Family("firefunction", r"functools(?=\[)", MarkedJson(), f"functools[{_JSON}]", "Firefunction 2, Phi 4"),
)
"""Families that mark each call. Where two share a mark, they are tried in this order."""

FRAMES: tuple[Frame, ...] = (Harmony(), MuseGlimmer(), Inkling(), KimiK3())
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
