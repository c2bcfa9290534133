"""Which built-in flow suits a task, where nobody chose one."""

from pathlib import Path

import pytest

from headgate.config import Config, flow_from_config, load_flow
from headgate.config.flow_choice import answers_shortly, asks_for_something_new, billions, suited_flow

STEPS = {"steps": [{"name": "tests", "command": "pytest -q"}]}


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("openai/qwen2.5-coder-1.5b-instruct-q4_k_m", 1.5),
        ("openai/Qwen3-30B-A3B", 30.0),
        ("openai/SmolLM2-135M-Instruct", 0.135),
        ("openai/gemma-3-270m-it", 0.27),
        ("openai/tiny-50m", 0.05),
        ("openai/Qwen2.5-7B-Instruct-1M", 7.0),
        ("openai/Qwen2.5-Turbo-1M", None),
        ("openai/mixtral-8x7b", None),
        ("openai/gpt-5.2", None),
        ("openai/qwen3-coder", None),
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
        ("openai/qwen2.5-coder-1.5b", STEPS, "Add a --verbose flag to the CLI.", "staged"),
        ("openai/qwen2.5-coder-1.5b", STEPS, "Document the prefix option.", "staged"),
        ("openai/qwen2.5-coder-1.5b", {}, "Fix the failing test of add.", "staged"),
        ("openai/qwen2.5-coder-32b", STEPS, "Fix the failing test of add.", "staged"),
        ("openai/deepseek-r1:1.5b", STEPS, "Fix the failing test of add.", "staged"),
        ("openai/claude-sonnet-4-5-1m", STEPS, "Fix the failing test of add.", "staged"),
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


@pytest.mark.parametrize(
    ("goal", "may_be_repaired"),
    [
        ("parse() fails with KeyError for empty input", True),
        ("Please fix the rounding.", True),
        ("Logging in doesn\u2019t work since Monday", True),
        ("The filters do not work together", True),
        ("The import crashes on empty files", True),
        ("total is computed incorrectly", True),
        ("add() returns the wrong sum", True),
        ("add returns the wrong sum", True),
        ("Update fails if the list is empty", True),
        ("Add an error message to the login form", False),
        ("The parser should raise an exception with a traceback", True),
        ("After a price is changed, the checkout still charges the old price.", True),
        ("If two targets depend on each other, the plan quietly leaves them out.", True),
        ("Make the tests pass.", True),
        ("Make the button blue", False),
        ("Show the version in the footer", False),
        ("Why is the build slow?", True),
        ("Print a line where the text breaks", False),
        ("Add a test for the failing import", False),
        ("Please write a page about fixing broken links", False),
        ("- Document what happens if a check fails", False),
        ("Refactor the failure reports", False),
        ("Use a prefix for affixed labels", False),
        ("Tests should pass", True),
        ("AssertionError: 3 != 4", True),
        ("parse_date raises for leap days", True),
        ("I am no longer able to save", True),
        ("add(2, 3) gives 6", True),
        ("Make the tests green", True),
        ("Write a fix for the bug in add", True),
        ("add subtracts instead of adding", True),
        ("We need a function sub(a, b) in calc.py", False),
        ("There should be an option to hide the list", False),
        ("With 10 items and 4 per page there should be 3 pages. Fix the pagination.", True),
        ("Readers may do things that need a right to write. Make sure that the tests pass.", True),
        ("There should be one line for each file; now it crashes.", True),
        ("We need a flag for the tests", False),
        ("Users want to sort the table, and to save it", False),
        ("F\u00fcge eine Funktion sub hinzu", True),
        ("Le total est faux", True),
        ("calc.py", True),
        ("Is the total right?", True),
        ("Can you please add a discount parameter to total()?", False),
        ("Could you fix the rounding?", True),
    ],
)
def test_only_a_goal_that_asks_for_something_new_is_ruled_out(goal: str, may_be_repaired: bool) -> None:
    assert asks_for_something_new(goal) != may_be_repaired


@pytest.mark.parametrize(
    ("model", "shortly"),
    [
        ("openai/qwen2.5-coder-1.5b-instruct", True),
        ("openai/Qwen3-4B-Instruct-2507", True),
        ("openai/qwen3-coder-3b", True),
        ("openai/llama3.2:3b", True),
        ("openai/granite-r12-2b", True),
        ("openai/Qwen3-0.6B-GGUF", False),
        ("openai/Qwen3-4B-Thinking-2507", False),
        ("openai/DeepSeek-R1-Distill-Qwen-1.5B", False),
        ("openai/phi-4-mini-reasoning-3.8b", False),
        ("openai/gpt-oss-1b", False),
        ("openai/magistral-3b", False),
        ("openai/SmolLM3-3B", False),
        ("openai/EXAONE-Deep-2.4B", False),
        ("openai/VibeThinker-1.5B", False),
        ("openai/qwen2.5-coder-7b", False),
    ],
)
def test_who_is_small_and_does_not_think_first(model: str, shortly: bool) -> None:
    assert answers_shortly(model) == shortly


def test_a_model_is_known_by_what_its_name_stands_for(tmp_path: Path) -> None:
    config = Config.model_validate(
        {"model": "local", "models": {"local": {"model": "openai/qwen2.5-coder-1.5b"}}, "verification": STEPS}
    )
    assert suited_flow(config, "Fix it.") == "repair"


def test_whoever_chooses_is_obeyed(tmp_path: Path) -> None:
    small = {"model": "openai/qwen2.5-coder-1.5b", "verification": STEPS}
    staged = Config.model_validate({**small, "task_flow_mode": "staged"})
    assert flow_from_config(staged, None, tmp_path, goal="Fix it.").name == "staged"
    repair = Config.model_validate({"verification": STEPS, "task_flow_mode": "repair"})
    assert flow_from_config(repair, None, tmp_path, goal="Add it.").name == "repair"
    assert flow_from_config(repair, "flat", tmp_path, goal="Fix it.").name == "flat"


def test_where_nothing_is_to_be_repaired_the_flow_is_staged(tmp_path: Path) -> None:
    repair, staged = load_flow("repair", tmp_path), load_flow("staged", tmp_path)
    otherwise = [
        stage.model_copy(update={"when": None}) for stage in repair.stages if stage.when == "no_suspects"
    ]
    assert otherwise == list(staged.stages)
    assert (repair.checks, repair.fix) == (staged.checks, staged.fix)


@pytest.mark.parametrize(
    ("mode", "stages"),
    [("first", ["plan", "implement"]), ("none", ["explore", "implement"]), ("explore", None)],
)
def test_a_plan_mode_leaves_the_questions_of_repair_alone(
    tmp_path: Path, mode: str, stages: list[str] | None
) -> None:
    config = Config.model_validate(
        {"verification": STEPS, "task_flow_mode": "repair", "task_plan_mode": mode}
    )
    flow = flow_from_config(config, None, tmp_path)
    assert [stage.id for stage in flow.stages] == ["fixes", *(stages or ["explore", "plan", "implement"])]
    questions = ["mutate", "short", "line", "missing", "rewrite", "sampled", "again", "function"]
    assert [stage.id for stage in flow.stages[0].stages] == questions
