"""The two suites of real replies, and what counts as right for each."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.core import ToolSpec
from headgate.models.textcalls import ParsedReply, parse_calls

SUITES = ("toolcall-llamacpp/cases.jsonl", "toolcall-sglang/full.jsonl")
# The family that a model's profile would name, by what the case says of the model.
HINTS = {
    r"Hermes|Qwen25|QwQ|Reka|granite-4": "hermes",
    r"GLM|Glm|Hunyuan|Poolside": "glm",
    r"Qwen3CoderDet|Qwen3-Coder|Qwen3.5|Nemotron-3|StepFun|Seed-OSS|functionary-medium-v3.1": "qwen-coder",
    r"MiniMax-M2|DeepSeek-V3.2|DeepSeekV32|DeepSeek-?V4|Dots": "invoke",
    r"MiniCPM": "minicpm",
    r"MiniMax-M3|MinimaxM3": "minimax",
    r"Mistral-Nemo": "mistral",
    r"Mistral-Small|Ministral|Devstral|MistralDet": "mistral-named",
    r"Kimi-K3": "kimi-k3",
    r"Kimi": "kimi",
    r"deepseek": "deepseek",
    r"gemma-4|Gemma4": "gemma",
    r"[Ll]lama-3\.|Llama32": "llama",
    r"LFM2|Lfm2": "lfm2",
    r"r7b|Cohere2": "cohere",
    r"granite-3": "granite",
    r"Apertus": "apertus",
    r"Nemotron-Nano-v2|Apriel": "tagged",
    r"GigaChat": "granite",
    r"firefunction": "firefunction",
    r"gpt-oss": "harmony",
    r"muse|Muse": "muse",
    r"Inkling": "inkling",
    r"command-r-plus": "fence",
    r"Pythonic": "pythonic",
}


@dataclass(frozen=True)
class Case:
    """One reply and what it should give."""

    id: str
    suite: str
    text: str
    tools: tuple[ToolSpec, ...]
    calls: tuple[tuple[str, str], ...]
    content: str
    reasoning: str | None
    family: str | None
    thinking: bool
    cut: bool

    def parse(self, hinted: bool) -> ParsedReply:
        """The reply taken apart, with what a model's profile could tell or without."""
        return parse_calls(
            self.text, self.tools, self.family if hinted else None, thinking=hinted and self.thinking
        )

    def gives(self, parsed: ParsedReply) -> tuple[tuple[str, str], ...]:
        """What to compare with `calls`. A reply that was cut off gives the names of its calls."""
        if self.cut:
            names = [*parsed.calls, *(item for item in parsed.problems if item.reason == "cut_off")]
            return tuple((item.name, "") for item in names)
        return tuple((call.name, canonical(call.arguments)) for call in parsed.calls)

    def same_text(self, parsed: ParsedReply) -> bool:
        """Whether the content and, where the suite has it, the thinking agree, but for outer white space."""
        content = parsed.content.strip() == self.content.strip()
        return content and (self.reasoning is None or parsed.reasoning.strip() == self.reasoning.strip())


def canonical(arguments: str) -> str:
    """Arguments as JSON values: two texts for the same values become the same text."""
    return json.dumps(json.loads(arguments), sort_keys=True)


def read_cases(root: Path) -> list[Case]:
    """All cases of both suites."""
    return [*_read_llamacpp(root / SUITES[0]), *_read_sglang(root / SUITES[1])]


def _read_llamacpp(path: Path) -> Iterator[Case]:
    for row in _rows(path):
        expect, cut = row["expect"], bool(row["partial"])
        calls = tuple(
            (call["name"], "" if cut else canonical(call["arguments"]))
            for call in expect.get("tool_calls") or ()
        )
        # Without a format for it, that server leaves the thinking in the content.
        reasoning = None if row["reasoning_format"] == "none" else expect.get("reasoning") or ""
        yield Case(
            row["id"],
            "llama.cpp",
            row["output"],
            _tools(row["tools"]),
            calls,
            expect.get("content") or "",
            reasoning,
            _hint(row["template"] or ""),
            row["enable_thinking"] is True,
            cut,
        )


def _read_sglang(path: Path) -> Iterator[Case]:
    for row in _rows(path):
        calls = tuple((call["name"], canonical(call["arguments"])) for call in row["calls"])
        tools, family = _tools(row["tools"]), _hint(row["detector"])
        content = row["content"] or ""
        yield Case(row["id"], "SGLang", row["input"], tools, calls, content, None, family, False, False)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _tools(rows: list[dict[str, Any]] | None) -> tuple[ToolSpec, ...]:
    functions = [row.get("function", row) for row in rows or ()]
    return tuple(ToolSpec(item["name"], "", item.get("parameters") or {}, "read") for item in functions)


def _hint(model: str) -> str | None:
    return next((family for pattern, family in HINTS.items() if re.search(pattern, model)), None)
