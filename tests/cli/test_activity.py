"""What people see while they wait, from events and signs of life."""

import asyncio
import io

import pytest
from rich.console import Console
from rich.text import Text

from headgate.cli.live import Footer, Progress, ShownTask
from headgate.core import (
    BaselineVerified,
    Body,
    CandidateTried,
    Delta,
    Event,
    Note,
    Pulse,
    ReplyReceived,
    StageEnded,
    StageStarted,
    State,
    StepFailed,
    ToolSpec,
    ToolStarted,
    VerifyStarted,
    fold,
)
from headgate.engine import Activity, count_tokens
from headgate.features.scouts import ScoutReported
from headgate.log import Bus
from headgate.models.textcalls import sort_stream


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


def started(*bodies: Body) -> State:
    stage = StageStarted(stage="explore", title="EXPLORE", attempt=1, reason="next", tools=("ls",), turns=20)
    return fold(
        Event(seq=number, task="t1", path="explore", turn=0, at=float(number), body=body)
        for number, body in enumerate((stage, *bodies), 1)
    )


def at(body: Body) -> Event:
    return Event(seq=9, task="t1", path="explore", turn=1, at=9.0, body=body)


def test_a_turn_from_its_prompt_to_its_call() -> None:
    clock = Clock()
    activity, state = Activity(clock), started()
    said = []

    def say(pulse: Pulse, seconds: float = 0.0) -> None:
        activity.hear_pulse(pulse)
        clock.at += seconds
        said.append(activity.describe(state))

    assert activity.describe(State()) == "Starting"
    assert activity.describe(state) == "EXPLORE turn 1/20: waiting for the model"
    say(Pulse("reading", total=4100), 34)
    say(Pulse("reading", done=1200, total=4300))
    say(Pulse("thinking", "I should look at the files.\nThen "), 2)
    say(Pulse("text", "Let me see. " * 10), 2)
    assert activity.lines == ["I should look at the files.", "Then ", "Let me see. " * 10]
    say(Pulse("call", "read_file"))
    say(Pulse("written", '{"path": "a.py"}'), 1)
    assert said == [
        "EXPLORE turn 1/20: reading ~4.1k tokens, 34 s",
        "EXPLORE turn 1/20: reading 1.2k of 4.3k tokens, 34 s",
        "EXPLORE turn 1/20: thinking, 8 tokens, 4 per second",
        "EXPLORE turn 1/20: writing, 38 tokens, 10 per second",
        "EXPLORE turn 1/20: calling read_file, 38 tokens, 10 per second",
        "EXPLORE turn 1/20: calling read_file, 42 tokens, 8 per second",
    ]
    assert "path" not in "".join(activity.lines)
    activity.hear(at(ToolStarted(call="c", name="read_file", category="read", target="a.py")))
    assert activity.describe(state) == "EXPLORE turn 1/20: read_file a.py"
    assert activity.written == 0


def entered(*kinds: str) -> State:
    """A task with stages under way, entered in this order."""
    bodies = [
        StageStarted(
            stage=kind, title=kind.upper(), attempt=1, reason="next", tools=(), turns=1, stage_kind=kind
        )
        for kind in kinds
    ]
    return fold(Event(seq, "t1", body.stage, 0, 0.0, body) for seq, body in enumerate(bodies, 1))


def test_a_stage_that_asks_no_model_does_not_wait_for_one() -> None:
    clock = Clock()
    activity = Activity(clock)
    assert activity.describe(entered("scout")) == "SCOUT: looking around"
    clock.at = 5
    assert activity.describe(entered("mutate")) == "MUTATE: trying small changes, 5 s"
    for both in (("mutate", "answer"), ("answer", "mutate")):
        assert activity.describe(entered(*both)) == "ANSWER turn 1/1: waiting for the model, 5 s"
    activity.hear_pulse(Pulse("reading", total=200))  # it shows the model what passed
    assert activity.describe(entered("mutate")) == "MUTATE: reading ~200 tokens"


def test_verification_step_by_step() -> None:
    clock = Clock()
    activity, state = Activity(clock), started()
    activity.hear(at(VerifyStarted(run_id="run_1", steps=("tests", "lint"))))
    assert activity.describe(state) == "Verifying: tests, lint"
    activity.hear_pulse(Pulse("step", "lint (2 of 2)"))
    activity.hear_pulse(Pulse("command", "checking a.py"))
    clock.at = 12
    assert activity.describe(state) == "Verifying: lint (2 of 2), 12 s"
    assert activity.lines == ["checking a.py"]


def test_an_answer_that_was_tried_is_no_longer_verified() -> None:
    activity, state = Activity(Clock()), started()
    activity.hear_pulse(Pulse("step", "tests"))
    activity.hear_pulse(Pulse("command", "FAILED (failures=1)"))
    activity.hear(at(CandidateTried(place="a.py: f", verdict="failed")))
    assert (activity.describe(state), activity.lines) == ("EXPLORE turn 1/20: waiting for the model", [])


def test_verification_of_the_tree_before_the_task_is_told_apart() -> None:
    clock = Clock()
    activity, state = Activity(clock), started()
    activity.hear_pulse(Pulse("start"))
    assert activity.describe(state) == "Checking whether verification failed before the task"
    activity.hear_pulse(Pulse("start", "tests (1 of 2)"))
    clock.at = 12
    said = "Checking whether verification failed before the task: tests (1 of 2), 12 s"
    assert (activity.describe(state), activity.lines) == (said, [])
    activity.hear(at(BaselineVerified(steps=("tests",))))
    assert activity.describe(state) == "EXPLORE turn 1/20: waiting for the model"


def test_a_failure_that_is_looked_into_is_no_longer_verified() -> None:
    clock = Clock()
    activity, state = Activity(clock), started()
    activity.hear(at(VerifyStarted(run_id="run_1", steps=("tests",))))
    activity.hear_pulse(Pulse("command", "1 failed"))
    activity.hear(at(StepFailed(run_id="run_1", step="tests", sentence="a.py::test_x: 1 != 2")))
    activity.hear_pulse(Pulse("again"))
    clock.at = 4
    assert (activity.describe(state), activity.lines) == ("Looking for the cause of the failure, 4 s", [])


def test_a_stage_that_has_ended_is_no_start() -> None:
    ended = started(StageEnded(stage="explore", ending="completed", reason="done", note=Note()))
    assert Activity().describe(ended) == "Checking the result"


@pytest.mark.parametrize(("count", "said"), [(0, "0"), (999, "999"), (1_000, "1.0k"), (1_500_000, "1.5M")])
def test_counting(count: int, said: str) -> None:
    assert count_tokens(count) == said


LS = ToolSpec("ls", "", {}, "read")
READ = ToolSpec("read_file", "", {}, "read")


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "thought", "tool"),
    [
        (
            '{"thought": "I use ls, then \\"read\\".", "name": "read_file", "arguments": {}}',
            'I use ls, then "read".',
            "read_file",
        ),
        ('<tool_call>\n{"name": "ls", "arguments": {"path": "read_file"}}\n</tool_call>', "", "ls"),
        ("<function=read_file><parameter=path>a</parameter></function>", "", "read_file"),
    ],
)
def test_calls_written_as_text_are_shown_by_name(size: int, text: str, thought: str, tool: str) -> None:
    shown: list[Delta] = []
    pass_on = sort_stream(shown.append, (LS, READ))
    assert pass_on is not None
    for start in range(0, len(text), size):
        pass_on(Delta(text=text[start : start + size]))
    pass_on(Delta(text=" " * 100))  # what is held back for a longer mark comes out
    assert "".join(delta.text for delta in shown).strip() == thought
    assert [delta.tool for delta in shown if delta.tool] == [tool]


def test_the_footer_takes_off_what_it_drew_also_in_a_narrower_window() -> None:
    said, up = io.StringIO(), "\x1b[1A\x1b[2K"
    console = Console(file=said, force_terminal=True, width=80, color_system=None, _environ={})
    footer = Footer(console)
    assert footer.wiping() == ""
    footer.draw([Text("head"), Text("x" * 200)])
    assert said.getvalue() == f"\x1b[?25lhead\n{'x' * 79}"
    console.width = 40  # 79 columns are two rows now
    footer.draw([Text("head")])
    assert said.getvalue().endswith(f"{'x' * 79}\r\x1b[2K{up * 2}\x1b[?25h\x1b[?25lhead")
    assert footer.wiping() == "\r\x1b[2K\x1b[?25h"
    assert footer.wiping() == ""


class Lines(ShownTask):
    """A task whose lines are kept."""

    def __init__(self, state: State | None = None) -> None:
        super().__init__(Bus(state=state or State()))
        self.lines: list[str] = []

    def print_line(self, line: str, at: float) -> None:
        self.lines.append(line)


def test_what_was_used_is_shown_whole_or_not_at_all_and_the_cost_once() -> None:
    spent = {"prompt_tokens": 2400, "completion_tokens": 160, "cost": 0.5, "priced": True}
    view = Lines(started(ReplyReceived(model="m", finish="stop", calls=(), **spent)))
    view.hear_pulse(Pulse("reading", total=4100))
    head = view.head(100).partition("  ")[2]
    assert head == "EXPLORE turn 2/20: reading ~4.1k tokens  (2.4k sent, 160 generated, cost 0.5000)"
    assert view.head(70).endswith("EXPLORE turn 2/20: reading ~4.1k tokens")
    assert view.head(30).endswith("...")


async def test_without_a_terminal_a_line_says_now_and_then_what_is_being_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(Bus(state=started()), silence=0.0)
    progress.hear_pulse(Pulse("reading", total=4100))
    said = ""
    with progress:
        while said.count("\n") < 2:
            await asyncio.sleep(0)
            said += capsys.readouterr().err
    assert set(said.splitlines()) == {"[00:00] EXPLORE turn 1/20: reading ~4.1k tokens"}


@pytest.mark.parametrize(
    ("pulse", "line", "doing"),
    [
        (
            Pulse("files", "Reading the code", 5, 30_000),
            "Reading the code: 30,000 files...",
            ": 5 of 30,000 files",
        ),
        (Pulse("files", "Reading", 9_000), "Reading: 9,000 files so far...", ": 9,000 files"),
        (Pulse("files", "Reading"), "Reading...", ""),
    ],
)
def test_many_files_that_are_read_are_a_line_once(pulse: Pulse, line: str, doing: str) -> None:
    task = Lines()
    while not task.lines:
        task.hear_pulse(pulse)
    for _ in range(3):
        task.hear_pulse(pulse)
    assert task.lines == [line]
    assert task.doing.startswith(f"{pulse.text}{doing}")
    assert task.elapsed > 0
    task.activity.hear(at(ScoutReported(scout="code")))
    assert task.doing == "Starting"
