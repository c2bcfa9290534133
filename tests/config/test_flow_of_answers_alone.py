"""A flow of whole answers alone: as a file, with the knobs of agent.yaml, and drawn."""

from pathlib import Path

from headgate.config import Config, draw_text, flow_from_config, load_flow
from headgate.core import ToolScope, ViewPolicy
from headgate.engine import FLOW_NAMES

FLOW = """\
begin: verify
stages:
  - id: line
    candidates: {ask: line}
    budget: {turns: 2, retries: 0, exhausted: skip}
checks: [verify]
"""


def test_knobs_for_conversations_leave_it_alone(tmp_path: Path) -> None:
    (tmp_path / "alone.yaml").write_text(FLOW)
    knobs = {
        "flow": "alone.yaml",
        "flow_history_mode": "tail",
        "flow_retry_hints": False,
        "flow_stage_required": False,
        "loop_patience": 7,
        "tools_block": ["shell"],
    }
    (stage,) = flow_from_config(Config.model_validate(knobs), None, tmp_path).stages
    assert (stage.view, stage.tools, stage.retry_hints) == (ViewPolicy(), ToolScope(), True)
    assert (stage.required, stage.budget.turns, stage.budget.loop_patience) == (False, 2, 7)


def test_its_drawing_has_no_way_back(tmp_path: Path) -> None:
    (tmp_path / "alone.yaml").write_text(FLOW)
    flow = load_flow("alone.yaml", tmp_path)
    assert draw_text(flow).endswith(
        "After the last stage\n   checks  verify\n   stuck   as soon as they fail\n"
    )


def test_what_it_heeds_beside_a_conversation(tmp_path: Path) -> None:
    heeded = "label: X, prompt: '?', system: '!', model: m, required: false, priority: high, when: suspects"
    (tmp_path / "both.yaml").write_text(
        "begin: verify\nstages:\n- {id: work}\n"
        f"- {{id: a, needs: [work], candidates: {{ask: line}}, budget: {{turns: 2}}, {heeded}}}\n"
    )
    assert load_flow("both.yaml", tmp_path, FLOW_NAMES).stages[1].label == "X"
