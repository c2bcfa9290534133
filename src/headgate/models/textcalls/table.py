"""The table of all families of models and how they write calls. A new family is a new entry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headgate.models.textcalls.json_families import (
    DeepSeekCall,
    GemmaCall,
    KimiCall,
    MarkedJson,
    NamedJson,
    PythonicMark,
    PythonicRows,
)
from headgate.models.textcalls.message_families import (
    MARK,
    Functionary,
    Harmony,
    Inkling,
    KimiK3,
    MiniMaxTree,
    MuseGlimmer,
)
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import CallsFound, ReplyPart
from headgate.models.textcalls.source import SPECIAL_QUOTE, Source
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
        "hermes-python",
        "<tool_call>",
        PythonicMark("</tool_call>"),
        '<tool_call>ls(path=".")</tool_call>',
        "any model that mixes the two forms",
    ),
    Family(
        "longcat",
        "<longcat_tool_call>",
        MarkedJson("</longcat_tool_call>"),
        f"<longcat_tool_call>{_JSON}</longcat_tool_call>",
        "LongCat Flash",
    ),
    Family(
        "longcat-tags",
        "<longcat_tool_call>",
        GlmCall("longcat_"),
        "<longcat_tool_call>ls<longcat_arg_key>path</longcat_arg_key>"
        "<longcat_arg_value>.</longcat_arg_value></longcat_tool_call>",
        "LongCat Flash",
    ),
    Family(
        "olmo",
        "<function_calls>",
        PythonicRows("</function_calls>"),
        '<function_calls>ls(path=".")</function_calls>',
        "OLMo 3: one call on a line",
    ),
    Family(
        "function-calls",
        "<function_calls>",
        MarkedJson("</function_calls>", pythonic=True),
        f"<function_calls>[{_JSON}]</function_calls>",
        "OLMo 3, at times",
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
        NamedJson(),
        '[TOOL_CALLS]ls[ARGS]{"path": "."}',
        "Mistral Small 3.2, Ministral 3, Devstral, Magistral",
    ),
    Family(
        "kimi",
        r"<\|tool_call_begin\|>",
        KimiCall(),
        "<|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "Kimi K2",
    ),
    Family(
        "deepseek",
        r"<[|｜]tool[▁_]call[▁_]begin[|｜]>",
        DeepSeekCall(),
        "<｜tool▁call▁begin｜>ls<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        "DeepSeek R1, V3, V3.1",
    ),
    Family(
        "gemma",
        r"<\|tool_call>",
        GemmaCall(SPECIAL_QUOTE, "<tool_call|>"),
        '<|tool_call>call:ls{path:<|"|>.<|"|>}<tool_call|>',
        "Gemma 4",
    ),
    Family(
        "functiongemma",
        "<start_function_call>",
        GemmaCall("<escape>", "<end_function_call>"),
        "<start_function_call>call:ls{path:<escape>.<escape>}<end_function_call>",
        "FunctionGemma",
    ),
    Family("llama", r"<\|python_tag\|>", MarkedJson(), f"<|python_tag|>{_JSON}", "Llama 3.1 to 3.3"),
    Family(
        "llama-builtin", r"<\|python_tag\|>", PythonicMark(), '<|python_tag|>ls.call(path=".")', "Llama 3.1"
    ),
    Family(
        "llama4",
        r"<\|python_start\|>",
        PythonicMark("<|python_end|>"),
        '<|python_start|>[ls(path=".")]<|python_end|>',
        "Llama 4",
    ),
    Family(
        "lfm2",
        r"<\|tool_call_start\|>",
        MarkedJson("<|tool_call_end|>", pythonic=True),
        '<|tool_call_start|>[ls(path=".")]<|tool_call_end|>',
        "LFM2, LFM2.5",
    ),
    Family(
        "cohere",
        r"<\|START_ACTION\|>",
        MarkedJson("<|END_ACTION|>"),
        '<|START_ACTION|>[{"tool_name": "ls", "parameters": {}}]<|END_ACTION|>',
        "Command R7B, Command A",
    ),
    Family(
        "granite",
        r"<\|tool_call\|>",
        MarkedJson("<|/tool_call|>"),
        f"<|tool_call|>[{_JSON}]",
        "Granite 3, Phi 4 mini",
    ),
    Family(
        "apertus",
        r"<\|tools_prefix\|>",
        MarkedJson("<|tools_suffix|>", keyed=True),
        '<|tools_prefix|>[{"ls": {"path": "."}}]<|tools_suffix|>',
        "Apertus",
    ),
    Family(
        "nemotron",
        "<TOOLCALL>",
        MarkedJson("</TOOLCALL>"),
        f"<TOOLCALL>[{_JSON}]</TOOLCALL>",
        "Nemotron Nano 2",
    ),
    Family(
        "apriel",
        "<tool_calls>",
        MarkedJson("</tool_calls>"),
        f"<tool_calls>[{_JSON}]</tool_calls>",
        "Apriel, Jamba",
    ),
    Family(
        "function-call",
        r"<(?:dots_)?(?:function_?call|tool_use|tools?)>",
        MarkedJson(
            "</function_call>",
            "</functioncall>",
            "</dots_function_call>",
            "</tool_use>",
            "</tools>",
            "</tool>",
        ),
        f"<function_call>{_JSON}</function_call>",
        "dots, Qwen 2.5 Coder (`<tools>`), Hermes variants",
    ),
    Family(
        "gigachat",
        r"<\|(?:function_call\|>|message_sep\|>\s{0,8}function call<\|role_sep\|>)",
        MarkedJson(),
        f"<|function_call|>{_JSON}",
        "GigaChat 3",
    ),
    Family(
        "internlm",
        r"<\|action_start\|>\s{0,8}<\|plugin\|>",
        MarkedJson("<|action_end|>"),
        "<|action_start|><|plugin|>" + _JSON + "<|action_end|>",
        "InternLM 2 and 3",
    ),
    Family("firefunction", r"functools(?=\[)", MarkedJson(), f"functools[{_JSON}]", "Firefunction 2, Phi 4"),
)
"""Families that mark each call. Where two share a mark, they are tried in this order."""

FRAMES: tuple[Frame, ...] = (Harmony(), MuseGlimmer(), Inkling(), KimiK3(), Functionary())
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
