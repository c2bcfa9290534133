"""Flows: built in, from files, from agent.yaml; and where each mistake is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headgate.config import (
    FLOW_SUFFIXES,
    Config,
    FlowNames,
    builtin_flows,
    flow_from_config,
    load_config,
    load_flow,
)
from headgate.config.stage_forms import expand_stages
from headgate.core import Flow, Stage, ToolScope, ToolSpec, flow_problems
from headgate.engine import CHECK_SPECS, SPECS
from headgate.errors import ConfigError

TOOLS = [ToolSpec("read_file", "", {}, "read"), ToolSpec("edit_file", "", {}, "write")]


def test_every_built_in_flow_is_sound(tmp_path: Path) -> None:
    flows = {name: load_flow(name, tmp_path, FlowNames(checks=CHECK_SPECS)) for name in builtin_flows()}
    assert {"staged", "flat"} <= set(flows)
    assert [flow.name for flow in flows.values()] == list(flows)


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "two.yaml").write_text("""
description: Two steps.
stages:
  - Look around.
  - id: change
    prompt: Change it.
    tools: {allow: [file.read, write]}
    needs: [look-around]
    checks: [code_changed, {files_read: 2}]
checks: [verify]
""")
    expected = Flow(
        name="two",
        description="Two steps.",
        stages=(
            Stage(id="look-around", prompt="Look around."),
            Stage(
                id="change",
                prompt="Change it.",
                tools=ToolScope(allow=("read_file", "write")),
                needs=("look-around",),
                checks={"code_changed": True, "files_read": 2},
            ),
        ),
        checks={"verify": True},
    )
    assert load_flow("flows/two.yaml", tmp_path, FlowNames(TOOLS, CHECK_SPECS)) == expected
    assert (
        load_flow(str(tmp_path / "flows" / "two.yaml"), Path("/"), FlowNames(TOOLS, CHECK_SPECS)) == expected
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "stagd",
            'There is no flow "stagd": did you mean "staged"? The built-in flows are ask, bench, branched, ',
        ),
        (
            "xyzzy",
            'There is no flow "xyzzy". The built-in flows are ask, bench, branched, flat, planned, repair,'
            " staged, staged3; ",
        ),
        ("nowhere.yaml", "There is no flow file nowhere.yaml."),
        ("folder/", "folder/ is a directory, but a file was expected."),
    ],
)
def test_unknown_flows(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError) as caught:
        load_flow(name, tmp_path)
    assert str(caught.value).startswith(message)


def test_which_flow_a_task_gets(tmp_path: Path) -> None:
    inline = Config(flow=["Do it."], task_flow_mode="flat")
    assert flow_from_config(inline, "staged", tmp_path).name == "staged"
    assert flow_from_config(inline, None, tmp_path) == Flow(
        name="custom", stages=(Stage(id="do-it", prompt="Do it."),), checks={"verify": True}
    )
    assert flow_from_config(Config(flow="flat"), None, tmp_path).name == "flat"
    assert flow_from_config(Config(task_flow_mode="flat"), None, tmp_path).name == "flat"
    assert flow_from_config(Config(task_flow_mode="planned"), None, tmp_path).name == "planned"
    assert flow_from_config(Config(), None, tmp_path).name == "staged"


@pytest.mark.parametrize(
    ("knob", "message"),
    [
        ("needs: [frst]", 'unknown stage "frst": did you mean "first"?'),
        ("checks: {files_read: many}", '"flow[1].checks.files_read" must be a whole number.'),
        ("checks: [named_file]", 'unknown key "named_file": did you mean "named_files"?'),
    ],
)
def test_a_mistake_in_agent_yaml_has_its_line(tmp_path: Path, knob: str, message: str) -> None:
    (tmp_path / "agent.yaml").write_text(f"model: openai/x\nflow:\n- First.\n- id: b\n  {knob}\n")
    loaded = load_config(
        tmp_path, config_file=None, environ={}, flags={}, user_file=tmp_path / "no-user-file.yaml"
    )
    with pytest.raises(ConfigError) as caught:
        flow_from_config(loaded.config, None, tmp_path, FlowNames(TOOLS, CHECK_SPECS), loaded.documents)
    assert str(caught.value) == f"agent.yaml, line 5: {message}"


def test_ids_of_plain_stages() -> None:
    prompts = ["Plan", "Plan", {"id": "plan-2"}, "42 is the answer", "!!!", "Größe prüfen", "x" * 90]
    assert [stage["id"] for stage in expand_stages(prompts)] == [
        "plan",
        "plan-3",
        "plan-2",
        "stage-42-is-the-answer",
        "stage",
        "gr-e-pr-fen",
        "stage-2",
    ]


@given(
    st.lists(
        st.text(max_size=80).filter(lambda text: not text.endswith(FLOW_SUFFIXES)), min_size=1, max_size=6
    )
)
def test_plain_stages_always_make_a_flow(prompts: list[str]) -> None:
    stages = TypeAdapter(tuple[Stage, ...]).validate_python(expand_stages(prompts))
    assert [stage.prompt for stage in stages] == prompts
    assert list(flow_problems(Flow(name="f", stages=stages))) == []


def test_a_part_of_a_flow_may_carry_out_a_plan_that_another_part_writes(tmp_path: Path) -> None:
    (tmp_path / "steps.yaml").write_text("stages:\n- id: step\n  foreach: plan\n  prompt: Do {item.id}.\n")
    config = Config.model_validate({"flow": ["Write the plan.", "steps.yaml"]})
    assert [stage.id for stage in flow_from_config(config, None, tmp_path, FlowNames(TOOLS)).stages][1:] == [
        "step"
    ]
    with pytest.raises(ConfigError, match="nothing writes the plan"):
        load_flow("steps.yaml", tmp_path, FlowNames(TOOLS))


LOOP = """\
stages:
  - id: loop
    repeat: {until: planner.complete, max: 4}
    stages:
      - {id: planner, tools: {allow: [execute, escalate]}}
      - {id: steps, foreach: recipe, needs: [planner]}
"""


def test_the_loop_of_a_planner_may_stand_in_agent_yaml(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(f"model: openai/m\n{LOOP.replace('stages:', 'flow:', 1)}")
    loaded = load_config(tmp_path, environ={}, flags={}, user_file=tmp_path / "none.yaml")
    flow = flow_from_config(loaded.config, None, tmp_path, FlowNames(SPECS, CHECK_SPECS))
    assert [leaf.kind for leaf in flow.leaves()] == ["planner"]


def test_the_loop_of_a_planner_is_a_stage_of_that_kind(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    (group,) = load_flow("loop.yaml", tmp_path, FlowNames(SPECS, CHECK_SPECS)).stages
    (planner,) = group.stages
    (built_in,) = load_flow("planned", tmp_path).stages
    assert (group.id, group.repeat, planner.settings) == ("loop", None, {"max_iterations": 4})
    assert planner.tools.allow == ("execute", "escalate")
    assert (planner.kind, planner.prompt, planner.checks) == ("planner", built_in.prompt, built_in.checks)
    assert [stage.foreach for stage in planner.stages] == ["recipe"]
