"""A flow of whole answers alone: as a file, with the knobs of agent.yaml, and drawn."""

from pathlib import Path

import pytest

from headgate.config import Config, draw_text, flow_from_config, load_flow
from headgate.core import ToolScope, ViewPolicy
from headgate.errors import ConfigError

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


@pytest.mark.parametrize(("key", "value"), [("tools", "{allow: [read]}"), ("checks", "[files_read]")])
def test_an_error_names_the_key_and_its_line(tmp_path: Path, key: str, value: str) -> None:
    written = FLOW.splitlines()
    (tmp_path / "alone.yaml").write_text("\n".join([*written[:5], f"    {key}: {value}", *written[5:]]))
    with pytest.raises(ConfigError) as raised:
        load_flow("alone.yaml", tmp_path)
    said = f"alone.yaml, line 6: {key} has no effect in a stage with candidates: leave it out."
    assert str(raised.value) == said


def test_its_drawing_has_no_way_back(tmp_path: Path) -> None:
    (tmp_path / "alone.yaml").write_text(FLOW)
    flow = load_flow("alone.yaml", tmp_path)
    assert draw_text(flow).endswith(
        "After the last stage\n   checks  verify\n   stuck   as soon as they fail\n"
    )
