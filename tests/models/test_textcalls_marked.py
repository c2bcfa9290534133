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
USER = spec(
    "register_user",
    name="string",
    age="integer",
    address="object",
    role="string",
    passed_test="boolean",
    aliases="array",
)
COOL = spec("do_something_cool", additional_data="object", steps="array")
WRITE = spec("write_file", ("path", "content"), path="string", content="string")
TESTS = spec("run_tests")
COUNT = spec("count", number="integer", deep="boolean", path="string")
TOOLS = (WEATHER, USER, COOL, WRITE, TESTS, COUNT)
TOKYO = '{"name": "get_weather", "arguments": {"city": "Tokyo"}}'

Calls = list[tuple[str, Any]]


def parse(text: str, family: str | None = None) -> ParsedReply:
    return parse_calls(text, TOOLS, family)


def calls(parsed: ParsedReply) -> Calls:
    return [(call.name, json.loads(call.arguments)) for call in parsed.calls]


SIMPLE = "get_weather(city='San Francisco', metric='celsius')"
SIMPLE_CALL = ("get_weather", {"city": "San Francisco", "metric": "celsius"})
TYPES = (
    "register_user(name='John Doe', age=37, address={'city': 'San Francisco', 'state': 'CA'}, "
    "role=%s, passed_test=%s, aliases=['John', 'Johnny'])"
)
TYPES_CALL = (
    "register_user",
    {
        "name": "John Doe",
        "age": 37,
        "address": {"city": "San Francisco", "state": "CA"},
        "role": None,
        "passed_test": True,
        "aliases": ["John", "Johnny"],
    },
)


@pytest.mark.parametrize("family", [None, "olmo", "pythonic"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SIMPLE, [SIMPLE_CALL]),
        (f"\n{SIMPLE}\n", [SIMPLE_CALL]),
        (TYPES % ("None", "True"), [TYPES_CALL]),
        (TYPES % ("null", "true"), [TYPES_CALL]),
        ("get_weather()", [("get_weather", {})]),
        ("do_something_cool(additional_data={})", [("do_something_cool", {"additional_data": {}})]),
        ("do_something_cool(steps=[])", [("do_something_cool", {"steps": []})]),
        (
            r"get_weather(city='Martha\'s Vineyard', metric='\"cool units\"')",
            [("get_weather", {"city": "Martha's Vineyard", "metric": '"cool units"'})],
        ),
        (f"{SIMPLE}\n{TYPES % ('None', 'True')}", [SIMPLE_CALL, TYPES_CALL]),
        (f"{SIMPLE}\nget_weather()\ndo_something_cool(steps=[])", None),
        (f"[{SIMPLE}, run_tests()]", [SIMPLE_CALL, ("run_tests", {})]),
        (f"[{TOKYO}]", [("get_weather", {"city": "Tokyo"})]),
        (f"write_file(path='a', content='</function_call>\\n{SIMPLE[:11]}()')\n{SIMPLE}", None),
    ],
)
def test_olmo(body: str, expected: Calls | None, family: str | None) -> None:
    parsed = parse(f"<function_calls>{body}</function_calls>", family)
    assert (parsed.content, parsed.problems) == ("", ())
    if expected is None:
        assert len(parsed.calls) == body.count("\n") + 1
    else:
        assert calls(parsed) == expected


def test_olmo_one_bad_call_does_not_spoil_the_others() -> None:
    parsed = parse(f"<function_calls>count(number=b'z')\n{SIMPLE}</function_calls>")
    assert calls(parsed) == [SIMPLE_CALL]
    assert [(problem.reason, problem.name) for problem in parsed.problems] == [("unreadable", "count")]
    parsed = parse("<function_calls>count(number=1])</function_calls>")
    assert (parsed.calls, [problem.reason for problem in parsed.problems]) == ((), ["unreadable"])
    parsed = parse(f"<function_calls>count(number=1e999)\n{SIMPLE}</function_calls>")
    assert calls(parsed) == [SIMPLE_CALL]


def test_olmo_tags_around_another_form() -> None:
    text = '<function_calls>\n<invoke name="get_weather"><parameter name="city">Tokyo</parameter></invoke>'
    assert calls(parse(text + "\n</function_calls>")) == [("get_weather", {"city": "Tokyo"})]


LONGCAT = "<longcat_tool_call>{}</longcat_tool_call>"


@pytest.mark.parametrize("family", [None, "longcat", "longcat-tags"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LONGCAT.format(TOKYO), [("get_weather", {"city": "Tokyo"})]),
        (f"{LONGCAT.format(TOKYO)}\n{LONGCAT.format(TOKYO)}", [("get_weather", {"city": "Tokyo"})] * 2),
        (f"I look.\n{LONGCAT.format(TOKYO)}\nThere it is.", [("get_weather", {"city": "Tokyo"})]),
        (
            "State.<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
            "<longcat_arg_value>Tokyo</longcat_arg_value>\n</longcat_tool_call>",
            [("get_weather", {"city": "Tokyo"})],
        ),
        (
            "<longcat_tool_call>count\n<longcat_arg_key>number</longcat_arg_key>\n"
            "<longcat_arg_value>3</longcat_arg_value>\n<longcat_arg_key>path</longcat_arg_key>\n"
            "<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>",
            [("count", {"number": 3, "path": "3"})],
        ),
        (
            LONGCAT.format(
                '{"name": "write_file", "arguments": {"path": "C:\\\\a", "content": "\\"hi\\"\\n🎉"}}'
            ),
            [("write_file", {"path": "C:\\a", "content": '"hi"\n🎉'})],
        ),
        (LONGCAT.format('{"name": "run_tests", "arguments": {}}'), [("run_tests", {})]),
    ],
)
def test_longcat(text: str, expected: Calls, family: str | None) -> None:
    assert calls(parse(text, family)) == expected


GEMMA = "<start_function_call>call:{}<end_function_call>"


@pytest.mark.parametrize("family", [None, "functiongemma"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GEMMA.format("get_weather{city:<escape>London<escape>}"), [("get_weather", {"city": "London"})]),
        (
            GEMMA.format("get_weather{city:<escape>San Francisco<escape>,metric:<escape>celsius<escape>}"),
            [SIMPLE_CALL],
        ),
        (
            GEMMA.format("get_weather{city:<escape>San Francisco<escape>metric:<escape>celsius<escape>}"),
            [SIMPLE_CALL],
        ),
        (
            f"Let me see. {2 * GEMMA.format('run_tests{}')}<start_function_response>",
            [("run_tests", {})] * 2,
        ),
        (GEMMA.format("count{number:42,deep:true}"), [("count", {"number": 42, "deep": True})]),
        (
            GEMMA.format("count{number:<escape>42<escape>,deep:<escape>true<escape>,path:<escape>7<escape>}"),
            [("count", {"number": 42, "deep": True, "path": "7"})],
        ),
        (
            GEMMA.format('write_file{path:<escape>a<escape>,content:<escape>"}\n\\n{<escape>}'),
            [("write_file", {"path": "a", "content": '"}\n\\n{'})],
        ),
        ("<start_function_call>call:run_tests{}", [("run_tests", {})]),
    ],
)
def test_functiongemma(text: str, expected: Calls, family: str | None) -> None:
    assert calls(parse(text, family)) == expected


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
        ("<start_function_call>get_weather<end_function_call>", "get_weather"),
        ("<start_function_call>call:get_weather{city:Tokyo}<end_function_call>", "get_weather"),
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
SPECIAL = [mark for mark in MARKS if mark.startswith(("<|", "<｜", "[TOOL_CALLS]", "<longcat", "<start_f"))]
NOISE = st.text(st.sampled_from(list("ab (){}[]\"'=:,\n<>|\\`")), min_size=1, max_size=60)


@given(st.sampled_from(SPECIAL), st.sampled_from(["", "get_weather", '{"name": "get_weather"']), NOISE)
def test_no_special_mark_is_passed_over(mark: str, head: str, noise: str) -> None:
    body = head + noise
    assume(body.strip() and "`" not in body)
    parsed = parse(f"Now.\n{mark}{body}")
    assert parsed.calls or parsed.problems
