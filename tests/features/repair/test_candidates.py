"""Whole answers, asked for and tried: what a request holds, and what the built-in flow makes of answers."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.checks import Suspect
from headgate.config import load_config
from headgate.core import (
    CandidateTried,
    Constraints,
    Event,
    Finish,
    Message,
    Reply,
    Request,
    StageEnded,
    StageStarted,
    SuspectsFound,
)
from headgate.engine import Engine
from headgate.features.repair.answers import CODE
from headgate.features.repair.candidates import STOP
from headgate.features.repair.suspects import Evidence, read_evidence, write_evidence
from headgate.log import Report

CART = "def total(prices):\n    return sum(prices) + 1\n"
TEST = """\
import unittest

from cart import total


class CartTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
LINE = "```python\nreturn sum(prices)\n```"
FUNCTION = "```python\ndef total(prices):\n    return sum(prices)\n```"
STEPS = "verification: {steps: [{name: tests, command: python3 -m unittest, timeout: 60}]}\n"


@dataclass
class Answering:
    """Gives its answers over and over, and keeps the requests."""

    answers: Sequence[str]
    requests: list[Request] = field(default_factory=list)
    name: str = "openai/tiny-1b"
    finish: Finish = "stop"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests.append(request)
        answer = self.answers[(len(self.requests) - 1) % len(self.answers)]
        return Reply(Message("assistant", answer), finish=self.finish)


def work(repo: Path, model: Answering, agent: str, files: dict[str, str]) -> tuple[Report, list[Event]]:
    for name, text in {"agent.yaml": agent, **files}.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    loaded = load_config(repo, environ={}, flags={})
    engine = Engine.open(repo, loaded, models={None: model})
    events: list[Event] = []
    engine.bus.on_event.append(events.append)
    try:
        task = engine.submit("total is wrong. Fix it.", Constraints())
        return asyncio.run(engine.run(task)), events
    finally:
        engine.store.close()


@pytest.mark.parametrize(
    "agent", ["task_flow_mode: repair\n", "model: openai/tiny-1b\n"], ids=["chosen", "by itself"]
)
def test_the_built_in_flow_keeps_what_passes(tmp_path: Path, agent: str) -> None:
    """Whatever its first questions are: an answer fits either a line or a function."""
    model = Answering([FUNCTION, LINE])
    report, events = work(tmp_path, model, agent + STEPS, {"cart.py": CART, "test_cart.py": TEST})
    assert (report.flow, report.state, report.verified) == ("repair", "SUCCESS", True)
    assert report.files_changed == ("cart.py",)
    assert "sum(prices) + 1" not in (tmp_path / "cart.py").read_text()
    for request in model.requests:
        told = "\n".join(message.content for message in request.messages)
        assert request.tools == ()
        assert request.max_tokens
        assert CART.strip() in told
        assert "self.assertEqual(total([1, 2]), 3)" in told
        assert len(told) < 2_000
    started = [event.body for event in events if isinstance(event.body, StageStarted)]
    assert all(body.tools == () for body in started)


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_request_asks_of_the_server(tmp_path: Path, as_json: bool) -> None:
    flow = (
        "begin: verify\nstages:\n- id: a\n  prompt: 'Line {number} of {path}: {line}'\n"
        f"  candidates: {{ask: line, temperature: 0.4, max_tokens: 77, as_json: {str(as_json).lower()}}}\n"
        "  budget: {turns: 1, retries: 0, exhausted: fail}\nchecks: [verify]\n"
    )
    model = Answering([LINE])
    files = {"cart.py": CART, "test_cart.py": TEST, "flow.yaml": flow}
    work(tmp_path, model, f"flow: flow.yaml\n{STEPS}", files)
    (request,) = model.requests
    assert (request.temperature, request.max_tokens) == (0.4, 77)
    assert (request.stop, request.form) == (((), CODE) if as_json else (STOP, None))
    assert request.messages[-1].content.endswith("Line 2 of cart.py:     return sum(prices) + 1")


LONG = "def total(prices):\n    prices = list(prices)\n    prices = prices[1:]\n    return sum(prices)\n"


CUT_OFF = "ask: line, suspects: 3, temperature: 0, cut_off: 2"


@pytest.mark.parametrize(
    ("candidates", "answers", "finish", "verdicts", "reason"),
    [
        (CUT_OFF, ["x"], "length", ["unusable"] * 2, "retry_exhaustion"),
        (CUT_OFF.removesuffix(", cut_off: 2"), ["x"], "length", ["unusable"] * 3, "max_turns"),
        ("ask: function, longest: 4", ["x"], "length", ["unusable"] * 4, "max_turns"),
        ("ask: function, longest: 3", ["x"], "length", [], ""),
        ("ask: function, stale: 2", [LONG], "stop", ["unchanged"] * 2, "retry_exhaustion"),
        (
            "ask: function, stale: 2",
            [LONG, LONG.replace("1:", "2:"), LONG, LONG],
            *("stop", ["unchanged", "failed", "unchanged", "unchanged"], "retry_exhaustion"),
        ),
        (
            "ask: function, stale: 2",
            [LONG.replace("1:", "2:")],
            *("stop", ["failed", "repeated", "repeated"], "retry_exhaustion"),
        ),
    ],
)
def test_when_a_stage_is_left_or_not_entered(
    tmp_path: Path, candidates: str, answers: list[str], finish: Finish, verdicts: list[str], reason: str
) -> None:
    turns = 9 if finish == "stop" else 4
    flow = (
        f"begin: verify\nstages:\n- id: a\n  prompt: Write it.\n  candidates: {{{candidates}}}\n"
        f"  budget: {{turns: {turns}, retries: 0, exhausted: skip}}\nchecks: [verify]\n"
    )
    files = {"cart.py": LONG, "test_cart.py": TEST, "flow.yaml": flow}
    _, events = work(tmp_path, Answering(answers, finish=finish), f"flow: flow.yaml\n{STEPS}", files)
    tried = [event.body.verdict for event in events if isinstance(event.body, CandidateTried)]
    ended = [event.body for event in events if isinstance(event.body, StageEnded)]
    assert tried == verdicts
    assert next((body.reason for body in ended if body.stage == "a"), "") == reason


CASES = """\
import pytest
from cart import total

@pytest.mark.parametrize(("prices", "expected"), [([], 0), ([4, 5], 9), (list(range(200)), 19900)])
def test_total(prices, expected):
    assert total(prices) == expected
"""


def test_a_question_shows_what_the_failing_case_was_given(tmp_path: Path) -> None:
    model = Answering([FUNCTION])
    flow = (
        "begin: verify\nstages:\n- id: a\n  prompt: Write it.\n  candidates: {ask: function}\n"
        "  budget: {turns: 1, retries: 0, exhausted: fail}\nchecks: [verify]\n"
    )
    agent = f"flow: flow.yaml\n{STEPS}".replace("python3 -m unittest", f"{sys.executable} -m pytest -q")
    cart = CART.replace(" + 1", " - len(prices)")
    report, _ = work(tmp_path, model, agent, {"cart.py": cart, "test_cart.py": CASES, "flow.yaml": flow})
    assert (report.state, report.verified) == ("SUCCESS", True)
    assert "\nprices = [4, 5], expected = 9\n" in model.requests[0].messages[-1].content


def test_a_package_of_a_monorepo(tmp_path: Path) -> None:
    """Names in the output are relative to the package, those of the tree are not."""
    model = Answering([FUNCTION, LINE])
    files = {"packages/api/src/cart.py": CART, "packages/api/test_cart.py": TEST}
    agent = f"monorepo: {{package: packages/api}}\ntask_flow_mode: repair\n{STEPS}".replace(
        "python3 -m", "PYTHONPATH=src:$PYTHONPATH python3 -m"
    )
    report, events = work(tmp_path, model, agent, files)
    (found,) = [event.body for event in events if isinstance(event.body, SuspectsFound)]
    assert found.functions == ("packages/api/src/cart.py: total",)
    assert (report.state, report.files_changed) == ("SUCCESS", ("packages/api/src/cart.py",))
    assert "self.assertEqual(total([1, 2]), 3)" in model.requests[0].messages[-1].content


def test_a_whole_path_in_the_output_and_a_number_without_end(tmp_path: Path) -> None:
    check = "python3 -m unittest 2>/dev/null && exit\n"
    check += f'echo "{tmp_path}/cart.py:2: no"; echo "cart.py:$(seq -s "" 3000)"; exit 1\n'
    files = {"cart.py": CART, "test_cart.py": TEST, "check.sh": check}
    agent = f"task_flow_mode: repair\n{STEPS}".replace("python3 -m unittest", "sh check.sh")
    report, events = work(tmp_path, Answering([FUNCTION, LINE]), agent, files)
    (found,) = [event.body for event in events if isinstance(event.body, SuspectsFound)]
    assert found == SuspectsFound(functions=("cart.py: total",), files=("cart.py",))
    assert report.state == "SUCCESS"


def test_evidence_survives_the_log() -> None:
    function = Suspect("odd é.py", "C.f", 1, 9, 0.5, (3, 4))
    evidence = Evidence(
        "def test(): ...", "E  1 != 2", ("test_a", "test_b"), (function, Suspect("b.py", last=7))
    )
    assert read_evidence(write_evidence(evidence)) == evidence


@pytest.mark.parametrize(("seconds", "tried"), [("0.2", 1), ("60", 3)], ids=["late", "in time"])
def test_an_answer_is_tried_in_no_further_place_when_time_is_up(
    tmp_path: Path, seconds: str, tried: int
) -> None:
    """Installed packages are shared with the copies: there the check can count how often it ran."""
    flow = (
        "begin: verify\nstages:\n- id: a\n  prompt: Which line is missing?\n  candidates: {ask: missing}\n"
        f"  budget: {{turns: 1, seconds: {seconds}, retries: 0, exhausted: fail}}\nchecks: [verify]\n"
    )
    files = {
        "cart.py": "def total(prices):\n    prices = list(prices)\n    prices.sort()\n"
        "    return sum(prices)\n",
        "check.sh": "echo x >> node_modules/times; sleep 0.3; echo cart.py:2: no; exit 1\n",
        "flow.yaml": flow,
        ".gitignore": "node_modules/\n",
        "node_modules/times": "",
    }
    agent = f"flow: flow.yaml\n{STEPS}".replace("python3 -m unittest", "sh check.sh")
    report, _ = work(tmp_path, Answering(["```\nprint(prices)\n```"]), agent, files)
    assert (report.state, report.files_changed) == ("STUCK", ())
    assert (tmp_path / "node_modules" / "times").read_text() == "x\n" * (1 + tried)


def test_a_check_that_fails_otherwise_in_a_copy_goes_to_the_stage_with_tools(tmp_path: Path) -> None:
    model = Answering(["I cannot find it."])
    steps = STEPS.replace("python3 -m unittest", "test -d .git && python3 -m unittest")
    agent = f"task_flow_mode: repair\nlimits: {{turns: 2}}\n{steps}"
    report, events = work(tmp_path, model, agent, {"cart.py": CART, "test_cart.py": TEST})
    found = [event.body for event in events if isinstance(event.body, SuspectsFound)]
    assert [(each.functions, each.unfit) for each in found] == [
        ((), "the check does not fail the same way in a copy of the tree")
    ]
    assert not [event for event in events if isinstance(event.body, CandidateTried)]
    tools = {tool.name for tool in model.requests[0].tools}
    assert ("read_file" in tools, "edit_file" in tools) == (True, False)  # it begins as staged does
    assert (report.state, report.files_changed) == ("STUCK", ())
