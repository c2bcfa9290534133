"""Which built-in flow suits a task, where nobody chose one."""

from pathlib import Path

import pytest

from headgate.config.flows import flow_from_config
from headgate.config.schema import Config
from headgate.config.suited import billions, suited_flow

STEPS = {"steps": [{"name": "tests", "command": "pytest -q"}]}


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("openai/qwen2.5-coder-1.5b-instruct-q4_k_m", 1.5),
        ("openai/qwen2.5-coder:1.5b", 1.5),
        ("openai/Qwen2.5-Coder-7B", 7.0),
        ("openai/Qwen3-30B-A3B", 30.0),
        ("openai/SmolLM2-135M-Instruct", 0.135),
        ("openai/llama3.2:3b", 3.0),
        ("openai/gpt-oss-120b", 120.0),
        ("openai/mixtral-8x7b", None),
        ("openai/gpt-5.2", None),
        ("anthropic/claude-sonnet-4-5", None),
        ("openai/qwen3-coder", None),
        ("script:fix.yaml", None),
        ("", None),
    ],
)
def test_the_size_that_a_name_tells(model: str, size: float | None) -> None:
    assert billions(model) == size


@pytest.mark.parametrize(
    ("model", "verification", "goal", "flow"),
    [
        ("openai/qwen2.5-coder-1.5b", STEPS, "pytest fails: the total is wrong.", "repair"),
        ("openai/qwen2.5-coder-1.5b", STEPS, "Fix the failing test of add.", "repair"),
        ("openai/qwen2.5-coder-1.5b", STEPS, "parse() raises KeyError for empty input", "repair"),
        ("openai/qwen2.5-coder-1.5b", STEPS, "Add a --verbose flag to the CLI.", "staged"),
        ("openai/qwen2.5-coder-1.5b", STEPS, "Document the prefix option.", "staged"),
        ("openai/qwen2.5-coder-1.5b", {}, "Fix the failing test of add.", "staged"),
        ("openai/qwen2.5-coder-32b", STEPS, "Fix the failing test of add.", "staged"),
        ("openai/gpt-5.2", STEPS, "Fix the failing test of add.", "staged"),
        ("script:fix.yaml", STEPS, "Fix the failing test of add.", "staged"),
        (None, STEPS, "Fix the failing test of add.", "staged"),
    ],
)
def test_which_flow_suits(
    tmp_path: Path, model: str | None, verification: dict[str, object], goal: str, flow: str
) -> None:
    config = Config.model_validate({"model": model, "verification": verification})
    assert suited_flow(config, goal) == flow
    assert flow_from_config(config, None, tmp_path, goal=goal).name == flow


def test_a_model_is_known_by_what_its_name_stands_for(tmp_path: Path) -> None:
    config = Config.model_validate(
        {"model": "local", "models": {"local": {"model": "openai/qwen3-1.7b"}}, "verification": STEPS}
    )
    assert suited_flow(config, "Fix it.") == "repair"


def test_whoever_chooses_is_obeyed(tmp_path: Path) -> None:
    small = {"model": "openai/qwen3-1.7b", "verification": STEPS}
    staged = Config.model_validate({**small, "task_flow_mode": "staged"})
    assert flow_from_config(staged, None, tmp_path, goal="Fix it.").name == "staged"
    repair = Config.model_validate({"verification": STEPS, "task_flow_mode": "repair"})
    assert flow_from_config(repair, None, tmp_path, goal="Add it.").name == "repair"
    assert flow_from_config(repair, "flat", tmp_path, goal="Fix it.").name == "flat"
