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
    Request,
    StageStarted,
    ToolCall,
    VerifyFinished,
)
from headgate.engine import Engine
from headgate.log import Report

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


FAILS, SKIPS, VERIFIED = LINE % "fail", LINE % "skip", "checks: [verify]\n"
WORK = "  - {id: work, needs: [line], prompt: Look at it.}\n"
DONE = ("SUCCESS", "done", True)


@pytest.mark.parametrize(
    ("flow", "cart", "answer", "told_of", "stages"),
    [
        (FAILS, SOUND, ANSWER, ("SUCCESS", "done", False), []),
        (FAILS, BROKEN, ANSWER, ("SUCCESS", "done", False), ["line"]),
        # What needs a stage that does not apply runs, and so does what needs one that applies.
        (FAILS + WORK + VERIFIED, SOUND, ANSWER, DONE, ["work"]),
        (FAILS + WORK + VERIFIED, BROKEN, ANSWER, DONE, ["line", "work"]),
        # The first answer was kept, so the second stage has no question; what needs it goes on.
        (
            FAILS
            + FAILS.replace("id: line", "id: again")
            + WORK.replace("[line]", "[line, again]")
            + VERIFIED,
            *(BROKEN, ANSWER, DONE, ["line", "work"]),
        ),
        # What needs a stage that failed does not run.
        (SKIPS + WORK + VERIFIED, BROKEN, USELESS, ("STUCK", "stage_failed", False), ["line"]),
        # A plan that nobody wrote is missing; a stage that talks and does not apply is not.
        (
            FAILS + WORK.replace("work, ", "step, foreach: plan, ") + VERIFIED,
            *(SOUND, ANSWER, ("STUCK", "stage_failed", False), []),
        ),
        (SKIPS + "  - {id: work, when: suspects, prompt: Do it.}\n" + VERIFIED, SOUND, ANSWER, DONE, []),
    ],
)
def test_what_runs_beside_stages_that_do_not_apply(
    tmp_path: Path, flow: str, cart: str, answer: str, told_of: tuple[str, str, bool], stages: list[str]
) -> None:
    ran = run(tmp_path, flow, cart, answer)
    assert (told(ran.report), ran.stages) == (told_of, stages)
