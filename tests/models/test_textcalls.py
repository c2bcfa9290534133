"""Calls written as text: what is called, what is only quoted, what is repaired and what is refused."""

import json

import pytest

from headgate.core import ToolSpec
from headgate.models.textcalls import NAMES, CallProblem, ParsedCall, ParsedReply, parse_calls
from headgate.models.textcalls.table import FAMILIES, FRAMES

LS = ToolSpec("ls", "", {"type": "object", "properties": {"path": {"type": "string"}}}, "read")
WRITE = ToolSpec(
    "write_file",
    "",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
    "write",
)
READ = ToolSpec(
    "read_file",
    "",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "start_line": {"type": "integer"},
            "all": {"type": "boolean"},
            "options": {"type": "object", "properties": {"depth": {"type": "integer"}}},
        },
        "required": ["path"],
    },
    "read",
)
TESTS = ToolSpec("run_tests", "", {"type": "object", "properties": {}}, "run")
TOOLS = (LS, WRITE, READ, TESTS)
CALL = '{"name": "ls", "arguments": {"path": "src"}}'
LS_SRC = ParsedCall("ls", '{"path": "src"}')


def parse(text: str, family: str | None = None, thinking: bool = False) -> ParsedReply:
    return parse_calls(text, TOOLS, family, thinking)


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"I look at it first.\n{CALL}",
        f"```json\n{CALL}\n```",
        f"Let me look.\n\n```json\n{CALL}\n```\n",
        f"```tool_call\n{CALL}\n```",
        '```tool_code\nls(path="src")\n```',
        f"~~~\n{CALL}\n~~~",
        f"<tool_call>{CALL}</tool_call>",
        f"<tool_call>\n{CALL}",
        f"```xml\n<tool_call>{CALL}</tool_call>\n```",
        f"[TOOL_CALLS][{CALL}]",
        '{"function": {"name": "ls", "arguments": "{\\"path\\": \\"src\\"}"}, "type": "function"}',
        '{"thought": "I look at it.", "name": "ls", "arguments": {"path": "src"}}',
        f"<tools>\n{CALL}\n</tools>",
        '{"tool_calls": [{"name": "ls", "arguments": {"path": "src"}}]}',
        '{"name": "functions.ls", "parameters": {"path": "src"}}',
        "{'name': 'ls', 'arguments': {'path': 'src'}}",
        '[ls(path="src")]',
        'ls(path="src")',
        'ls("src")',
        '<function_calls><invoke name="ls"><parameter name="path">src</parameter></invoke></function_calls>',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n"
        '{"path": "src"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    ],
)
def test_a_call_is_found(text: str) -> None:
    assert parse(text).calls == (LS_SRC,)


@pytest.mark.parametrize(
    "text",
    [
        f"Write `{CALL}` to list a folder.",
        f"Write `<tool_call>{CALL}</tool_call>` to list a folder.",
        f"A call is a block:\n\n```json\n{CALL}\n```\n\nThe name is the tool's, and so on.",
        f"For example:\n<tool_call>{CALL}</tool_call>",
        f"You would write:\n\n```json\n{CALL}\n```",
        f"First,\n{CALL}\nis one way to put it.",
        f"```python\n{CALL}\n```",
        "```\nplain words\n```",
        "```\n<tool_call>\n```\nis the tag that begins a call.",
        'The tool is described as\n{"name": "ls", "description": "Lists", "parameters": {"type": "object"}}',
        '{"name": "ls", "parameters": {"type": "object", "properties": {"path": {}}}}',
        '{"name": "headgate", "version": "1"}',
        "[ls](https://example.org) and [write_file](url)",
        f"<think>I could say <tool_call>{CALL}</tool_call> here.</think>Done.",
        f"I could say <tool_call>{CALL}</tool_call> here.</think>Done.",
        f"<think>I could say <tool_call>{CALL}</tool_call> and then",
        'Call ls(path="src") if you like.',
    ],
)
def test_a_call_that_is_only_talked_about_is_not_run(text: str) -> None:
    parsed = parse(text)
    assert parsed.calls == ()
    assert parsed.content or parsed.reasoning


def test_text_without_calls_is_kept_to_the_letter() -> None:
    text = "  Use `<think>` tags.\n\n```json\n{}\n```\n"
    assert parse(text) == ParsedReply(text)


def test_a_tool_that_does_not_exist_stays_text() -> None:
    text = '<tool_call>{"name": "rm", "arguments": {}}</tool_call>'
    assert parse(text) == ParsedReply(
        text, problems=(CallProblem("unknown_tool", "rm", 'There is no tool "rm".'),)
    )


def test_several_calls_text_and_thinking() -> None:
    text = f"<think>\nTwo steps.\n</think>\n\nI begin.\n<tool_call>{CALL}</tool_call>"
    text += "\n<tool_call>\n<function=run_tests>\n</function>\n</tool_call>"
    assert parse(text) == ParsedReply("I begin.", "Two steps.", (LS_SRC, ParsedCall("run_tests", "{}")))


def test_a_reply_that_begins_inside_the_thinking() -> None:
    assert parse("So it goes.\n</think>\n\nDone.") == ParsedReply("Done.", "So it goes.")
    assert parse("So it goes", thinking=True) == ParsedReply("", "So it goes")
    text = f"So it goes\n<tool_call>{CALL}</tool_call>"
    assert parse(text, thinking=True) == ParsedReply("", "So it goes", (LS_SRC,))


def test_arguments_may_hold_the_marks_of_any_family() -> None:
    content = (
        "</think>\n```json\n"
        + CALL
        + "\n```\n</parameter>\n<tool_call>x</tool_call> <|open|>a<|sep|>\n</function>"
    )
    written = json.dumps({"name": "write_file", "arguments": {"path": "a.md", "content": content}})
    expected = ParsedCall("write_file", json.dumps({"path": "a.md", "content": content}, ensure_ascii=False))
    assert parse(f"<tool_call>{written}</tool_call>").calls == (expected,)
    tagged = (
        "<tool_call>\n<function=write_file>\n<parameter=path>\na.md\n</parameter>\n"
        f"<parameter=content>\n{content}\n</parameter>\n</function>\n</tool_call>"
    )
    assert parse(tagged).calls == (expected,)


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"path": "a", "start_line": "3"}', {"path": "a", "start_line": 3}),
        ('{"path": "a", "all": "true"}', {"path": "a", "all": True}),
        ('{"path": "a", "options": "{\\"depth\\": \\"2\\"}"}', {"path": "a", "options": {"depth": 2}}),
        ('{"path": "a", "options": {"depth": "2"}}', {"path": "a", "options": {"depth": 2}}),
        ('{"path": 3}', {"path": 3}),
        ('{"path": "3"}', {"path": "3"}),
        ('{"path": "a", "start_line": "three"}', {"path": "a", "start_line": "three"}),
        ('{"path": "a", "start_line": 2.0}', {"path": "a", "start_line": 2}),
        ('{"path": "a", "start_line": 3,}', {"path": "a", "start_line": 3}),
        ('{"path": "a\nb"}', {"path": "a\nb"}),
        ('{path: "a"}', {"path": "a"}),
        ('{"path": "print("a")"}', {"path": 'print("a")'}),
        ('{"path": "a" "start_line": 3}', {"path": "a", "start_line": 3}),
    ],
)
def test_arguments_are_repaired_and_take_the_types_of_the_schema(
    written: str, arguments: dict[str, object]
) -> None:
    parsed = parse(f'<tool_call>{{"name": "read_file", "arguments": {written}}}</tool_call>')
    assert [(call.name, json.loads(call.arguments)) for call in parsed.calls] == [("read_file", arguments)]


def test_a_brace_that_is_missing_is_added_only_before_the_closing_mark() -> None:
    broken = '<tool_call>\n{"name": "ls", "arguments": {"path": "src"}\n'
    assert parse(f"{broken}</tool_call>").calls == (LS_SRC,)
    parsed = parse(broken)
    assert parsed.calls == ()
    assert [problem.reason for problem in parsed.problems] == ["cut_off"]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "half a fi',
        "<tool_call>\n<function=write_file>\n<parameter=content>\nhalf a fi",
        "<tool_call>\n<function=write_file>\n<parameter=content>\nhalf a file\n</parameter>\n",
        '{"name": "write_file", "arguments": {"path": "a", "content": "half a fi',
        '[write_file(path="a", content="half a fi',
        '[TOOL_CALLS]write_file[ARGS]{"path": "a", "content": "half a fi',
        '<|channel|>commentary to=functions.write_file<|message|>{"path": "a", "content": "half a fi',
        '<|tool_call>call:write_file{path:<|"|>a<|"|>,content:<|"|>half a fi',
        '<invoke name="write_file"><parameter name="content">half a fi',
    ],
)
def test_a_call_that_is_cut_off_is_not_run(text: str) -> None:
    parsed = parse(text)
    assert parsed.calls == ()
    assert [(problem.reason, problem.name) for problem in parsed.problems] == [("cut_off", "write_file")]


def test_harmony_channels() -> None:
    text = (
        "<|channel|>analysis<|message|>Look first.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.ls <|constrain|>json<|message|>{"path": "src"}<|call|>'
    )
    assert parse(text) == ParsedReply("", "Look first.", (LS_SRC,))


def test_a_harmony_call_that_breaks_off_before_another_message_is_unreadable() -> None:
    call = '<|channel|>commentary to=functions.ls<|message|>{"path": "src<|end|>'
    parsed = parse(f"{call}<|start|>assistant<|channel|>final<|message|>Done.")
    assert [problem.reason for problem in parsed.problems] == ["unreadable"]


def test_a_family_is_known_by_name() -> None:
    assert {family.name for family in FAMILIES} | {frame.name for frame in FRAMES} < NAMES
    with pytest.raises(ValueError, match="There is no family"):
        parse("", family="nobody")


def test_without_tools_there_are_no_calls() -> None:
    assert parse_calls(f"<think>a</think><tool_call>{CALL}</tool_call>", ()) == ParsedReply(
        f"<tool_call>{CALL}</tool_call>", "a"
    )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_sample_of_a_family_is_a_call(family: object) -> None:
    sample = next(item.sample for item in FAMILIES if item is family)
    if "..." not in sample:
        assert [call.name for call in parse(sample).calls] == ["ls"]


@pytest.mark.parametrize(
    "decision",
    [
        {"tool": {"name": "file.read", "args": {"path": "a"}}},
        {"tool": {"name": "read_file", "arguments": {"path": "a"}}, "state": {"completed": ["read"]}},
        {"tool": "file.read", "args": {"path": "a"}, "reasoning": "Look."},
        {"tool": {"name": "read_file", "args": '{"path": "a"}'}, "action": "call_tool"},
    ],
)
def test_a_decision_to_call_a_tool_is_a_call(decision: dict[str, object]) -> None:
    written = json.dumps({"_type": "EXECUTOR_DECISION", "action": "CALL_TOOL", **decision})
    assert parse_calls(written, TOOLS).calls == (ParsedCall("read_file", '{"path": "a"}'),)
    assert parse_calls(f"So:\n```json\n{written}\n```", TOOLS).calls != ()


@pytest.mark.parametrize(
    ("decision", "summary"),
    [
        (
            {"_type": "EXECUTOR_DECISION", "action": "DONE", "summary": "It is 1.", "reasoning": "So."},
            "It is 1.",
        ),
        ({"_type": "PLANNER_DECISION", "action": "COMPLETE", "reasoning": "It is 1."}, "It is 1."),
        ({"_type": "PLANNER_DECISION", "action": "COMPLETE"}, "Done."),
    ],
)
def test_a_decision_that_it_is_done_keeps_its_words(decision: dict[str, object], summary: str) -> None:
    done = ToolSpec("stage_done", "Done.", {"type": "object", "properties": {"summary": {}}}, "control")
    (call,) = parse_calls(json.dumps(decision), (*TOOLS, done)).calls
    assert (call.name, json.loads(call.arguments)) == ("stage_done", {"summary": summary})


def test_a_decision_to_execute_is_a_call() -> None:
    execute = ToolSpec(
        "execute", "", {"type": "object", "properties": {"task_type": {}, "goals": {}}}, "control"
    )
    decision = {"_type": "PLANNER_DECISION", "action": "EXECUTE", "task_type": "research", "goals": ["a"]}
    (call,) = parse_calls(json.dumps(decision), (*TOOLS, execute)).calls
    assert (call.name, json.loads(call.arguments)) == ("execute", {"task_type": "research", "goals": ["a"]})


def _nested(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {"name": "ls", "args": {}}
    for _ in range(depth):
        inner = {"_type": "EXECUTOR_DECISION", "action": "CALL_TOOL", "tool": inner}
    return inner


@pytest.mark.parametrize(
    "decision",
    [
        {"action": "CALL_TOOL"},
        {"action": "CALL_TOOL", "tool": {}},
        {"action": "CALL_TOOL", "tool": [1]},
        {"action": "CALL_TOOL", "tool": _nested(100)},
        {"action": "JUMP"},
        {"action": ["DONE"]},
        {},
    ],
)
def test_a_decision_that_cannot_be_read_is_answered_with_what_it_needs(decision: dict[str, object]) -> None:
    parsed = parse_calls(json.dumps({"_type": "EXECUTOR_DECISION", **decision}), TOOLS)
    assert parsed.calls == ()
    assert [problem.reason for problem in parsed.problems] == ["decision"]
    assert "CALL_TOOL with `tool: {name, args}`" in parsed.problems[0].message
