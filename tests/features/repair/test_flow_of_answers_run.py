"""Whole runs of flows with stages of whole answers: stages that do not apply, and nobody who mends."""

import asyncio
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headgate.config import load_config
from headgate.core import (
    Constraints,
    Event,
    Message,
    Reply,
    Report,
    Request,
    StageEnded,
    StageStarted,
    ToolCall,
    VerifyFinished,
)
from headgate.engine import Engine

BROKEN = "def total(prices):\n    return sum(prices) + 1\n"
SOUND = BROKEN.replace(" + 1", "")
TEST = """\
import unittest

from cart import total


class CartTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
ANSWER = "```python\nreturn sum(prices)\n```"
USELESS = "```python\nreturn max(prices)\n```"
LINE = """\
  - id: line
    when: suspects
    candidates: {ask: line}
    budget: {turns: 1, retries: 0, exhausted: %s}
"""
TESTS = "python3 -m unittest"


@dataclass
class Answering:
    """Answers whole where it is offered no tools, and else says that it is done."""

    answer: str = ANSWER
    requests: list[Request] = field(default_factory=list)
    name: str = "openai/tiny-1b"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests.append(request)
        if not request.tools:
            return Reply(Message("assistant", self.answer))
        done = next(tool for tool in request.tools if tool.name == "stage_done")
        (stage,) = done.parameters["properties"]["stage"]["enum"]
        arguments = f'{{"stage": "{stage}", "summary": "Done."}}'
        return Reply(Message("assistant", "", (ToolCall(f"c{len(self.requests)}", "stage_done", arguments),)))


@dataclass
class Ran:
    report: Report
    events: list[Event]
    requests: int

    @property
    def stages(self) -> list[str]:
        """Those that people are told of."""
        started = [event.body for event in self.events if isinstance(event.body, StageStarted)]
        return [body.stage for body in started if body.title]

    @property
    def verifications(self) -> list[tuple[bool, bool]]:
        """Whether each was the opening one, and whether it passed."""
        finished = [event.body for event in self.events if isinstance(event.body, VerifyFinished)]
        return [(body.opening, body.passed) for body in finished]


def run(repo: Path, flow: str, cart: str, answer: str = ANSWER, check: str = TESTS) -> Ran:
    files = {
        "agent.yaml": f"flow: flow.yaml\nverification: {{steps: [{{name: tests, command: {check}}}]}}\n",
        "flow.yaml": f"begin: verify\nstages:\n{flow}",
        "cart.py": cart,
        "test_cart.py": TEST,
        ".gitignore": "__pycache__\n",
    }
    for name, text in files.items():
        (repo / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    loaded = load_config(repo, environ={}, flags={}, user_file=repo / "none.yaml")
    model, events = Answering(answer), list[Event]()
    engine = Engine.open(repo, loaded, models={None: model})
    engine.bus.on_event.append(events.append)
    try:
        task = engine.submit("total is wrong. Fix it.", Constraints())
        report = asyncio.run(engine.run(task))
    finally:
        engine.store.close()
    return Ran(report, events, len(model.requests))


def told(report: Report) -> tuple[str, str, bool]:
    return report.state, report.reason, report.verified


def test_an_answer_that_passes_only_in_a_copy_ends_stuck(tmp_path: Path) -> None:
    only_in_a_copy = f"{TESTS} && test $PWD != {tmp_path}"
    ran = run(tmp_path, LINE % "fail" + "checks: [verify]\n", BROKEN, check=only_in_a_copy)
    assert told(ran.report) == ("STUCK", "verify_loops", False)
    assert (ran.stages, ran.requests, ran.verifications) == (["line"], 2, [(True, False), (False, False)])


@pytest.mark.parametrize("cart", [SOUND, BROKEN], ids=["sound", "broken"])
def test_answers_alone_without_a_check_at_the_end(tmp_path: Path, cart: str) -> None:
    ran = run(tmp_path, LINE % "fail", cart)
    assert told(ran.report) == ("SUCCESS", "done", False)


@pytest.mark.parametrize(
    ("cart", "stages"),
    [(SOUND, ["work"]), (BROKEN, ["line", "work"])],
    ids=["does not apply", "applies"],
)
def test_what_needs_a_stage_that_does_not_apply_runs(tmp_path: Path, cart: str, stages: list[str]) -> None:
    flow = LINE % "fail" + "  - {id: work, needs: [line], prompt: Look at it.}\nchecks: [verify]\n"
    ran = run(tmp_path, flow, cart)
    assert told(ran.report) == ("SUCCESS", "done", True)
    assert ran.stages == stages


def test_what_needs_a_stage_with_nothing_to_ask_runs(tmp_path: Path) -> None:
    """The first answer was kept, so the second stage has no question; what needs it goes on."""
    again = (LINE % "fail").replace("id: line", "id: again")
    flow = LINE % "fail" + again + "  - {id: work, needs: [line, again], prompt: Look.}\nchecks: [verify]\n"
    ran = run(tmp_path, flow, BROKEN)
    assert told(ran.report) == ("SUCCESS", "done", True)
    assert ran.stages == ["line", "work"]


def test_what_needs_a_stage_that_failed_still_does_not_run(tmp_path: Path) -> None:
    flow = LINE % "skip" + "  - {id: work, needs: [line], prompt: Look.}\nchecks: [verify]\n"
    ran = run(tmp_path, flow, BROKEN, USELESS)
    assert told(ran.report) == ("STUCK", "stage_failed", False)
    ended = {
        event.body.stage: event.body.reason for event in ran.events if isinstance(event.body, StageEnded)
    }
    assert (ran.stages, ended["work"]) == (["line"], "needs_not_met")


def test_a_plan_that_nobody_wrote_is_still_missing(tmp_path: Path) -> None:
    flow = LINE % "fail" + "  - {id: step, foreach: plan, needs: [line], prompt: Do it.}\nchecks: [verify]\n"
    ran = run(tmp_path, flow, SOUND)
    assert told(ran.report) == ("STUCK", "stage_failed", False)
    assert ran.stages == []


def test_a_stage_that_talks_and_does_not_apply_is_not_missed(tmp_path: Path) -> None:
    flow = LINE % "skip" + "  - {id: work, when: suspects, prompt: Do it.}\nchecks: [verify]\n"
    ran = run(tmp_path, flow, SOUND)
    assert told(ran.report) == ("SUCCESS", "done", True)
    assert (ran.stages, ran.requests) == ([], 0)
