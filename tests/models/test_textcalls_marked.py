"""Marked calls, each of which gives a call or a correction; the newer forms; calls at the end of a line."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headgate.core import ToolSpec
from headgate.models.textcalls import CallProblem, ParsedReply, parse_calls
from headgate.models.textcalls.scan import MARK
from headgate.models.textcalls.table import FAMILIES


def spec(name: str, required: tuple[str, ...] = (), /, **properties: str) -> ToolSpec:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    return ToolSpec(name, "", {"type": "object", "properties": fields, "required": list(required)}, "read")


WEATHER = spec("get_weather", city="string", metric="string")
WRITE = spec("write_file", ("path", "content"), path="string", content="string")
TESTS = spec("run_tests")
TOOLS = (WEATHER, WRITE, TESTS)
TOKYO = '{"name": "get_weather", "arguments": {"city": "Tokyo"}}'

Calls = list[tuple[str, Any]]


def parse(text: str, family: str | None = None) -> ParsedReply:
    return parse_calls(text, TOOLS, family)


def calls(parsed: ParsedReply) -> Calls:
    return [(call.name, json.loads(call.arguments)) for call in parsed.calls]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<|tool_call_start|>[get_weather(city="the "old" town")]<|tool_call_end|>', "get_weather"),
        ("[TOOL_CALLS]get_weather", "get_weather"),
        ("[TOOL_CALLS]get_weather city=Tokyo", "get_weather"),
        ('[TOOL_CALLS]get_weather(city="Tokyo")', "get_weather"),
        ('[TOOL_CALLS]get_weather[ARGS]city="Tokyo"', "get_weather"),
        ("<|python_tag|>import os\nprint(os.listdir())", ""),
        ("<|START_ACTION|>get_weather in Tokyo<|END_ACTION|>", "get_weather"),
        ("<longcat_tool_call>invalid json", ""),
        (
            '<longcat_tool_call>{"name": "get_weather", "arguments": "no dict"}</longcat_tool_call>',
            "get_weather",
        ),
        ("<tool_call>I look at the weather</tool_call>", "I"),
        ("<tool_call>: get the weather</tool_call>", ""),
        ("<|tool_call>get_weather<tool_call|>", "get_weather"),
        ("<|tool_call>call:get_weather{city:Tokyo}<tool_call|>", "get_weather"),
        ("<function_calls>get_weather Tokyo</function_calls>", "get_weather"),
        ("<|tool_call_begin|>functions.get_weather<|tool_call_end|>", "get_weather"),
        ("<function=get_weather", "get_weather"),
    ],
)
def test_a_marked_call_that_cannot_be_read_is_answered(text: str, problem: str) -> None:
    parsed = parse(text)
    assert (parsed.content, parsed.calls) == (text, ())
    assert [each.name for each in parsed.problems] == [problem]
    assert '""' not in parsed.problems[0].message


def test_the_correction_says_what_to_do() -> None:
    parsed = parse('<|tool_call_start|>[get_weather(city="the "old" town")]<|tool_call_end|>')
    assert parsed.problems == (
        CallProblem(
            "unreadable",
            "get_weather",
            'The call to "get_weather" cannot be read: write its arguments as one JSON object, and escape '
            "quotation marks inside strings.",
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "Use <tool_call> tags to call a tool.",
        "The template has a <function_calls> tag and `[TOOL_CALLS]` marks.",
        "For example: <|python_tag|>import os",
        "Write `<|tool_call_start|>[x]` there.",
        '<tools>[{"type": "function", "function": {"name": "ls", "description": "Lists"}}]</tools>',
        "<think>Perhaps <|python_tag|>import os</think>Done.",
        "It ends with <tool_call>",
        "```\n<|python_tag|>import os\n```\nis how Llama does it.",
    ],
)
def test_a_mark_that_is_only_talked_about_is_no_call(text: str) -> None:
    parsed = parse(text)
    assert (parsed.calls, parsed.problems) == ((), ())


def test_what_an_unreadable_call_holds_is_not_run() -> None:
    inner = f"<tool_call>{TOKYO}</tool_call>"
    text = f'<|tool_call_start|>[write_file(path="a", content="say "hi" {inner}")]<|tool_call_end|>'
    assert parse(text).calls == ()


@pytest.mark.parametrize(
    ("text", "content", "count"),
    [
        (f"I look at it now: {TOKYO}", "I look at it now:", 1),
        (f"I look. [{TOKYO}, {TOKYO}]\n", "I look.", 2),
        (f"One.\nTwo. {TOKYO}", "One.\nTwo.", 1),
        (f"Both. {TOKYO}\n{TOKYO}", "Both.", 2),
        ("I look. [get_weather(city='Tokyo')]", "I look.", 1),
        (f"I look. {TOKYO}</tool_call>", "I look.", 1),
        (f"It is {{}} or {{'a': 1}}; so {TOKYO}", "It is {} or {'a': 1}; so", 1),
    ],
)
def test_a_call_ends_the_reply_behind_text_on_the_same_line(text: str, content: str, count: int) -> None:
    parsed = parse(text)
    assert calls(parsed) == [("get_weather", {"city": "Tokyo"})] * count
    assert parsed.content.removesuffix("</tool_call>") == content


@pytest.mark.parametrize(
    "text",
    [
        f"I could say {TOKYO} here.",
        f"Write `{TOKYO}`",
        f"You would write: {TOKYO}",
        f"It looks like: {TOKYO}",
        'It is {"name": "nobody", "arguments": {}}',
        'The file holds {"name": "get_weather", "version": 2, "items": [{"name": "get_weather"}]}',
        f"I thought {TOKYO}</think>Done.",
    ],
)
def test_an_object_in_a_line_of_text_is_no_call_otherwise(text: str) -> None:
    assert parse(text).calls == ()


MARKS = sorted({found[0] for family in FAMILIES if (found := MARK.search(family.sample))})
SPECIAL = [mark for mark in MARKS if mark.startswith(("<|", "<｜", "[TOOL_CALLS]"))]
NOISE = st.text(st.sampled_from(list("ab (){}[]\"'=:,\n<>|\\`")), min_size=1, max_size=60)


@given(st.sampled_from(SPECIAL), st.sampled_from(["", "get_weather", '{"name": "get_weather"']), NOISE)
def test_no_special_mark_is_passed_over(mark: str, head: str, noise: str) -> None:
    body = head + noise
    assume(body.strip() and "`" not in body)
    parsed = parse(f"Now.\n{mark}{body}")
    assert parsed.calls or parsed.problems
