"""What people see of a planner's calls, and how long the last words of a model may be."""

from pathlib import Path

from headgate.core import ToolStarted
from scenarios.runner import run_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def test_what_a_planner_has_executed_is_shown(tmp_path: Path) -> None:
    run = run_scenario(SCENARIOS / "900_a_planner_has_code_changed", tmp_path)
    started = [event.body for event in run.events if isinstance(event.body, ToolStarted)]
    assert [body.target for body in started if body.name == "execute"] == ["code_modify: n.txt holds 1"]


def test_the_last_words_of_a_stuck_task_are_bounded(tmp_path: Path) -> None:
    run = run_scenario(SCENARIOS / "902_a_planner_that_gets_nowhere", tmp_path)
    assert [request.max_tokens for request in run.model.requests][-1] == 500
    assert run.model.requests[-1].tools == ()


def test_a_step_is_told_the_request_and_its_goals_once(tmp_path: Path) -> None:
    run = run_scenario(SCENARIOS / "1078_the_document_is_true_and_cannot_be_forged", tmp_path)
    edit = "\n".join(message.content for message in run.model.requests[2].messages)
    assert "Make the change with the editing tools" in edit
    assert (edit.count("Make n 1."), edit.count("n.txt holds 1")) == (1, 1)
