"""What a task has used, by stage and model: the lines add up to the totals."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.core import (
    Body,
    Event,
    Message,
    ModelSettings,
    Price,
    Reply,
    ReplyFailed,
    ReplyReceived,
    State,
    Usage,
    UsageLine,
    read_body,
    say_cost,
    say_usage,
    spent,
    usage_table,
)
from headgate.errors import ReplyInvalid
from headgate.features.compaction import StageCompacted
from headgate.features.phases import PhaseProbed
from headgate.log import build_report, render_markdown

FREE = ModelSettings(model="openai/local")
DEAR = ModelSettings(model="openai/dear", price=Price(input=3, cached=0.3, output=15))
GIFT = ModelSettings(model="openai/gift", price=Price())
COUNTS = st.integers(0, 2_000_000)


@st.composite
def spending(draw: st.DrawFn) -> Body:
    asked = draw(st.sampled_from([FREE, DEAR, GIFT]))
    prompt = draw(COUNTS)
    usage = Usage(prompt, draw(COUNTS), draw(st.integers(0, prompt)))
    fields = spent(usage, asked, estimated=draw(st.booleans()))
    match draw(st.sampled_from(["reply", "failed", "unavailable", "probe", "summary", "unasked"])):
        case "reply":
            return ReplyReceived.of(Reply(Message("assistant"), usage), asked)
        case "failed":
            error = ReplyInvalid("no")
            error.tokens = (usage.prompt, usage.completion, usage.cached)
            return ReplyFailed.unusable(error, asked)
        case "unavailable":
            return ReplyFailed(error="unavailable", detail="down")
        case "probe":
            return PhaseProbed(**fields)
        case kind:
            written = {"stage": "work", "start": 0, "end": 1, "strategy": "agent", "chars_before": 1}
            told = (
                {"chars_after": 1, "requests": draw(st.integers(1, 3)), **fields} if kind == "summary" else {}
            )
            return StageCompacted.model_validate({**written, "chars_after": 1, **told})


PATHS = st.sampled_from(["", "work#1", "rounds#2/implement#3", "rounds#2/fix#1"])


@given(st.lists(st.tuples(PATHS, spending()), max_size=30))
def test_the_lines_add_up_to_the_totals(told: list[tuple[str, Body]]) -> None:
    state = State()
    for number, (path, body) in enumerate(told, 1):
        state.apply(Event(number, "t1", path, 0, float(number), body))
    report = build_report(state)
    lines = report.usage
    assert sum(line.requests for line in lines) == report.requests
    assert sum(line.sent for line in lines) == report.prompt_tokens
    assert sum(line.cached for line in lines) == report.cached_tokens
    assert sum(line.generated for line in lines) == report.completion_tokens
    assert round(sum(line.cost or 0.0 for line in lines), 6) == report.cost
    assert abs(report.cost - state.accounts.cost) < 1e-4
    assert len({(line.stage, line.model) for line in lines}) == len(lines)
    assert {line.stage for line in lines} <= {"", "work", "implement", "fix"}
    assert all((line.cost is None) == (line.model == FREE.model) for line in lines)


def test_a_log_of_an_earlier_version_is_read() -> None:
    old = {"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": 0, "finish": "stop", "calls": []}
    state = State()
    for number, cost in enumerate((0.0, 0.25), 1):
        body = read_body("reply_received", {**old, "cost": cost})
        state.apply(Event(number, "t1", "work#1", 0, 1.0, body))
    (line,) = build_report(state).usage
    wanted = UsageLine(stage="work", model="", requests=2, sent=200, cached=0, generated=10, cost=0.25)
    assert line == wanted
    assert "| work | (not recorded) | 2 | 200 | 0 | 10 | 0.2500 |" in render_markdown(
        build_report(state), state
    )


def line(model: str, cost: float | None, **more: bool) -> UsageLine:
    figures = {"requests": 1, "sent": 1_500, "cached": 0, "generated": 20}
    return UsageLine.model_validate({"stage": "work", "model": model, "cost": cost, **figures, **more})


def test_what_has_no_price_is_not_counted_silently() -> None:
    known, unknown = line("a", 0.5), line("b", None)
    assert say_cost(0.5, [known]) == "0.5000"
    assert say_cost(12.5, [known, unknown, line("c", 12.0)]) == "12.50 (known for 2 of 3 models)"
    assert say_cost(0.0, [unknown]) == ""
    assert [row[-1] for row in usage_table([known, unknown])] == ["cost", "0.5000", "no price"]
    assert "cost" not in usage_table([unknown])[0]


def test_estimates_are_marked() -> None:
    assert usage_table([line("a", 0.5, estimated=True)])[1][3:] == ("~1,500", "0", "~20", "~0.5000")
    said = say_usage(Usage(1_500, 20, 100), "0.5000", estimated=True)
    assert said == "~1,500 tokens sent (100 cached), ~20 generated, cost ~0.5000"
    failed = ReplyFailed.unusable(ReplyInvalid("It took too long."), DEAR)
    assert (failed.estimated, failed.priced, failed.model) == (True, True, "openai/dear")
