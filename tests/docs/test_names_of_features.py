"""`core` and `run` know features by their hooks alone: nothing there has the name of one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate.core

SOURCE = Path(headgate.__file__).parent
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
NAMES = {
    *("phase", "phases", "mention", "mentions", "mentioned", "drive", "driver", "driven", "scout", "scouts"),
    *("repair", "mutate", "mutations", "suspects", "research", "skill", "skills"),
    *("recipe", "recipes", "planner", "planners", "review", "reviews"),
}
"""Words that name features. `compaction` also means that a view is cut, which is the loop's own."""
ACCEPTED = {
    "What a stage in a flow file may say: the kinds `drive` and `driven`, and what follows for the tree": {
        *("DRIVE", "DRIVEN", "drive", "driven", "driver", "driven_by", "is_driven", "_put_in_drive"),
    },
    "What a flow file may say: scouts, trying mutations, the condition `no_suspects`": {
        *("scouts", "SCOUTS", "scout", "suspects", "no_suspects", "mutate"),
    },
    "What a flow may say: the kinds `planner` and `review`, and the recipes that are pinned with it": {
        *("PLANNER", "planner", "planners", "review", "recipe", "recipes", "Recipe", "RECIPE_NAME"),
        *("headgate.core.recipes", "of_recipes"),
    },
    "A person reviews a proposal: a field of the event `task_ended`": {"after_review"},
    "Names of tools, and the dotted names that flow files may use for them": {
        *("ask_scout", "load_skill", "make_skill", "research", "skill.generator", "internet.research"),
        *("RESEARCH_TOOL", "gives_research", "headgate.core.research"),
    },
    "The key `phase` of a recipe, for people": {"phase"},
    "Events that the loop itself looks at": {"SuspectsFound", "suspects_found"},
    "What a model wrote is repaired": {"repair_json"},
}
"""Names that stay, by why. This list may only become shorter."""


def names_in(path: Path) -> Iterator[str]:
    """The identifiers of a module, and the texts in it that are written like one: kinds, keys and tools."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for field in ("name", "id", "attr", "arg", "asname", "module"):
            if isinstance(name := getattr(node, field, None), str):
                yield name
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [node.value] if re.fullmatch(r"[\w.]+", node.value) else []


def is_of_feature(name: str) -> bool:
    return not NAMES.isdisjoint(word.lower() for word in WORD.findall(name))


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """The names of features, each with a module that has it."""
    paths = [path for room in ("core", "run") for path in (SOURCE / room).glob("*.py")]
    return {name: path.name for path in paths for name in names_in(path) if is_of_feature(name)}


def test_the_loop_names_no_feature(found: dict[str, str]) -> None:
    accepted = set().union(*ACCEPTED.values())
    assert {name: module for name, module in found.items() if name not in accepted} == {}
    assert accepted - found.keys() == set(), "no longer there: remove it from ACCEPTED"


@pytest.mark.parametrize(
    "event", ["StageCompacted", "MentionsRead", "PhaseChanged", "RecipeStarted", "ScoutReported"]
)
def test_the_core_has_no_event_of_a_feature(event: str) -> None:
    assert not hasattr(headgate.core, event)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("PhaseChanged", True), ("run.task_phases", True), ("phrase", False), ("FlowDriver", True)],
)
def test_a_name_is_taken_apart(name: str, expected: bool) -> None:
    assert is_of_feature(name) == expected
