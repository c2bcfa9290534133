"""The two suites of real replies, whole and cut into pieces, and any bytes at all."""

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from toolcall_suites import SUITES, Case, read_cases

from cases import CASES, case_path
from headgate.core import ToolSpec
from headgate.models.textcalls import CallScanner, ParsedReply, parse_calls
from headgate.models.textcalls.result import THINKING_MARKS
from headgate.models.textcalls.table import FAMILIES, FRAMES

SCRIPT = Path(__file__).parents[2] / "scripts" / "gen_toolcall_docs.py"
LS = ToolSpec(
    "ls",
    "",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "depth": {"type": "integer"},
            "options": {"type": "object"},
        },
    },
    "read",
)
TOOLS = (LS, ToolSpec("run_tests", "", {"type": "object", "properties": {}}, "run"))


@pytest.fixture(scope="module")
def suites() -> list[Case]:
    for suite in SUITES:
        case_path(*suite.split("/"))
    return read_cases(CASES)


@pytest.mark.parametrize("hinted", [False, True])
def test_nearly_all_replies_give_exactly_the_expected_calls(suites: list[Case], hinted: bool) -> None:
    for suite in ("llama.cpp", "SGLang"):
        cases = [case for case in suites if case.suite == suite]
        right = [case for case in cases if case.gives(case.parse(hinted)) == case.calls]
        assert len(right) >= 0.97 * len(cases)


@pytest.mark.parametrize("hinted", [False, True])
def test_no_reply_without_a_call_gives_one(suites: list[Case], hinted: bool) -> None:
    silent = [case for case in suites if not case.calls]
    assert len(silent) > 100
    assert [case.id for case in silent if case.parse(hinted).calls] == []


def test_the_page_is_current(suites: list[Case]) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HEADGATE_CASES": str(CASES)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def show(pieces: list[str]) -> str:
    scanner = CallScanner()
    shown = [scanner.feed(piece) for piece in pieces]
    return "".join(delta.text + delta.reasoning + delta.arguments for delta in shown)


def test_a_reply_cut_anywhere_is_shown_at_most_once(suites: list[Case]) -> None:
    chance = random.Random(6)
    for case in suites:
        cuts = sorted(chance.choices(range(len(case.text) + 1), k=9))
        parts = [case.text[start:end] for start, end in pairwise([0, *cuts, len(case.text)])]
        assert len(show(parts)) <= len(case.text)
        assert len(show(list(case.text))) <= len(case.text)


def check(parsed: ParsedReply, tools: tuple[ToolSpec, ...]) -> None:
    """Whatever came in: calls are of existing tools, with objects that can be sent on."""
    names = {tool.name for tool in tools}
    for call in parsed.calls:
        assert call.name in names
        assert isinstance(json.loads(call.arguments), dict)
        call.arguments.encode()
    parsed.content.encode()
    parsed.reasoning.encode()


def test_replies_that_are_damaged_give_calls_or_none(suites: list[Case]) -> None:
    chance = random.Random(7)
    for case in suites:
        for _ in range(4):
            text = list(case.text)
            for _ in range(chance.randint(1, 5)):
                place = chance.randrange(len(text) + 1)
                match chance.randrange(3):
                    case 0:
                        del text[place : place + chance.randint(1, 9)]
                    case 1:
                        text[place:place] = chance.choice(
                            ['"', "{", "}", "[", "\\", "<", "`", "\n", "\udc80", "é"]
                        )
                    case _:
                        text[place:place] = text[max(0, place - chance.randint(1, 40)) : place]
            check(parse_calls("".join(text), case.tools), case.tools)


MARKS = [
    *(family.sample for family in (*FAMILIES, *FRAMES)),
    *THINKING_MARKS,
    *THINKING_MARKS.values(),
    *('{"name": "ls", "arguments": {', '"path": ', "}", "[", "]", "ls(", ")", "```json\n", "\n", '"', "\\"),
    *("</tool_call>", "</function>", "<parameter=path>", "<|message|>", "<|end|>", " ", "{", "<"),
    *("\n{", "\n[ls(", "\n```", '<tool_call>{"a":'),
]


@pytest.mark.parametrize("mark", dict.fromkeys(MARKS))
def test_long_and_deep_replies_are_read_in_bounded_work(mark: str) -> None:
    check(parse_calls(mark * (60_000 // len(mark)), TOOLS), TOOLS)
