"""Which attempts count as idle: those at stages that could have read, written or run something."""

import pytest

from headgate.core import Body, Event, Note, StageEnded, StageStarted, fold


def attempt(stage: str, tools: tuple[str, ...]) -> list[Body]:
    started = StageStarted(stage=stage, title=stage, attempt=1, reason="next", tools=tools, turns=1)
    return [started, StageEnded(stage=stage, ending="skipped", reason="max_turns", note=Note())]


@pytest.mark.parametrize(
    ("tools", "count"),
    [((), 0), (("think", "plan_tasks", "agent__task_status", "stage_done"), 0), (("ls", "stage_done"), 3)],
)
def test_only_stages_with_tools_that_act_count(tools: tuple[str, ...], count: int) -> None:
    bodies = [(name, body) for name in ("a", "b", "c") for body in attempt(name, tools)]
    state = fold(Event(n, "t1", name, 0, 0.0, body) for n, (name, body) in enumerate(bodies, 1))
    assert state.tree.idle_attempts == count
    assert all(stage.counts.idle == bool(count) for stage in state.nodes.values())
