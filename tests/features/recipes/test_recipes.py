"""Recipes as data: budgets of tokens, stages with ids of their own, documents, progress."""

from typing import Any

import pytest
from pydantic import ValidationError

from headgate.core import (
    Event,
    Flow,
    InputDoc,
    Note,
    Problem,
    Recipe,
    StageEnded,
    StageSkipped,
    StageStarted,
    State,
    ToolSpec,
    fold,
    match_spelling,
    rename_stages,
)
from headgate.features.recipes import Executions, RecipeStarted
from headgate.features.recipes.document import render_context
from headgate.features.recipes.events import task_progress
from headgate.features.recipes.execution import Execution, expand_recipe, share_docs, without_tool
from headgate.features.recipes.recipe_files import recipe_problems

STEPS: list[dict[str, Any]] = [
    {"id": "look", "tools": {"allow": ["read"]}, "when": "'ls' not in variables.gathered"},
    {
        "id": "work",
        "needs": ["look"],
        "repeat": {"until": "check.passed", "max": 2},
        "stages": [{"id": "edit"}, {"id": "check", "kind": "verify", "when": "results.look.n > 1"}],
    },
]


def recipe(**fields: Any) -> Recipe:
    return Recipe.model_validate({"name": "fix", "description": "Fix it.", "stages": STEPS, **fields})


def test_the_defaults_are_those_of_the_specification() -> None:
    made = recipe()
    budget = made.token_budget
    assert (budget.total, budget.prompt, budget.input_docs, budget.output, budget.buffer) == (
        3500,
        800,
        1500,
        500,
        700,
    )
    assert (made.max_steps, made.temperature, made.role, made.phase) == (5, 0.3, "executor", "execution")
    assert made.input_docs == (
        InputDoc(path="context.md", optional=False, max_tokens=1500, path_type="turn"),
    )
    assert made.steps == ("look", "edit", "check")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"token_budget": {"total": 3000}},
            "must have a `total` of at least 3500, or smaller parts: they are prompt 800, input_docs 1500,"
            " output 500, buffer 700, and `total` is 3000",
        ),
        ({"name": "Fix It"}, "String should match pattern"),
        ({"description": ""}, "at least 1 character"),
        ({"input_docs": [{"path": "a.md"}]}, "must have the path `context.md`, or `path_type: repo`"),
        ({"input_docs": [{"path": "/a", "path_type": "repo"}]}, "must name a file of the repository, not /a"),
        (
            {"input_docs": [{"path": "a/../../b", "path_type": "repo"}]},
            "must name a file of the repository, not a/../../b",
        ),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        recipe(**fields)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("fields", "where", "said"),
    [
        ({"max_steps": 2}, ("max_steps",), "there are 3 steps, and `max_steps` is 2"),
        (
            {"stages": [{"id": "a"}, {"id": "a-very-long-name"}]},
            ("stages", 1, "id"),
            "the id of a step has at most 12 characters, and a-very-long-name has 16",
        ),
        (
            {"stages": [{"id": "a", "kind": "planner"}]},
            ("stages", 0, "kind"),
            "a step of a recipe cannot be of the kind planner",
        ),
        (
            {"stages": [{"id": "g", "stages": [{"id": "a", "kind": "drive", "stages": [{"id": "b"}]}]}]},
            ("stages", 0, "stages", 0, "kind"),
            "a step of a recipe cannot be of the kind drive",
        ),
        (
            {"stages": [{"id": "a", "foreach": "plan"}]},
            ("stages", 0, "foreach"),
            "a step of a recipe cannot be repeated for each plan: leave `foreach` out",
        ),
    ],
)
def test_where_steps_are_wrong_is_said(
    fields: dict[str, Any], where: tuple[str | int, ...], said: str
) -> None:
    assert next(recipe_problems(recipe(**fields))) == Problem(where, said)


@pytest.mark.parametrize("key", ["allow", "add"])
def test_a_step_cannot_execute(key: str) -> None:
    made = recipe(stages=[{"id": "a", "tools": {key: ["read", "execute"]}}])
    said = "a step of a recipe cannot have execute: only a planner has it"
    assert next(recipe_problems(made)) == Problem(("stages", 0, "tools", key, 1), said)


@pytest.mark.parametrize(
    "name", ["code_modify", "Code Modify", "code-modify", "codeModify", "CodeModify", " CODE_MODIFY "]
)
def test_a_type_may_be_spelt_in_any_way(name: str) -> None:
    assert match_spelling(name, ["code_create", "code_modify"]) == "code_modify"


@pytest.mark.parametrize("name", ["", "  ", "code", "modify_code", "code_modify_all"])
def test_what_is_no_type_stays_as_it_is(name: str) -> None:
    assert match_spelling(name, ["code_create", "code_modify"]) == name


def test_a_recipe_is_left_without_the_steps_that_cannot_be_done() -> None:
    look = {"id": "look", "tools": {"allow": ["research"]}, "budget": {"exhausted": "skip"}}
    tell = {"id": "tell", "needs": ["look"]}
    made = without_tool(recipe(stages=[look, tell]), "research", "There is none.")
    assert ([stage.id for stage in made.stages], made.stages[0].needs) == (["tell"], ())
    assert made.unavailable == ""
    needed = {"id": "look", "tools": {"allow": ["research"]}}
    assert without_tool(recipe(stages=[needed, tell]), "research", "No.").unavailable == "No."
    kept = recipe(stages=[{"id": "look", "tools": {"allow": ["research", "read"]}}])
    assert without_tool(kept, "research", "There is none.") == kept


def test_the_stages_of_two_executions_share_nothing() -> None:
    one, two = (expand_recipe(recipe(), Execution(number, "fix", ("x",))) for number in (1, 2))
    assert [leaf.id for leaf in one.leaves()] == ["fix-1.look", "fix-1.edit", "fix-1.check"]
    assert not {leaf.id for leaf in one.leaves()} & {leaf.id for leaf in two.leaves()}
    work = one.stages[1]
    assert (work.needs, work.repeat and work.repeat.until) == (("fix-1.look",), "fix-1.check.passed")
    assert work.stages[1].when == "results['fix-1.look'].n > 1"


def test_a_step_has_the_model_the_limits_and_the_documents_of_its_recipe() -> None:
    made = recipe(model="cheap", calls=2, instructions=["Be brief."])
    look = next(expand_recipe(made, Execution(1, "fix", ("x",))).leaves())
    assert look.agent is not None
    assert (look.model, look.agent.options.temperature, look.agent.options.max_tokens) == ("cheap", 0.3, 500)
    assert (look.budget.calls, look.budget.failed_calls, look.view.max_tokens) == (2, 3, 3500)
    assert look.tools.allow == ("read", "escalate")
    assert [part.value for part in look.system] == ["Be brief."]


def test_a_step_keeps_its_own_tools_and_may_hand_its_work_back() -> None:
    closed = {
        "id": "closed",
        "tools": {"exclusive": True, "block": ["shell"]},
        "view": {"max_tokens": 900},
    }
    free, alone = expand_recipe(recipe(stages=[{"id": "free"}, closed]), Execution(1, "fix", ("x",))).stages
    shown = [ToolSpec(name, "", {}, category) for name, category in (("ls", "read"), ("shell", "run"))]
    escalate = ToolSpec("escalate", "", {}, "control", by_name=True)
    assert [free.tools.admits(spec) for spec in (*shown, escalate)] == [True, True, True]
    assert (alone.tools.exclusive, alone.tools.block) == (True, ("shell",))
    assert (free.view.max_tokens, alone.view.max_tokens) == (3500, 900)


def test_documents_share_the_room_that_there_is() -> None:
    docs = [
        InputDoc(path=name, path_type="repo", max_tokens=size) for name, size in (("a", 1000), ("b", 3000))
    ]
    assert [doc.max_tokens for doc in share_docs(docs, 5000)] == [1000, 3000]
    assert [doc.max_tokens for doc in share_docs(docs, 2000)] == [500, 1500]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a.passed", "x.a.passed"),
        ("not a.failed", "not x.a.failed"),
        ("again", "again"),
        ("code:f", "code:f"),
        ("results.a.n > 1 and results['b'] == 'a'", "results['x.a'].n > 1 and results['b'] == 'a'"),
        ("'a' in variables.gathered", "'a' in variables.gathered"),
    ],
)
def test_conditions_name_stages_by_other_names(before: str, after: str) -> None:
    assert rename_stages(before, {"a": "x.a"}) == after


def test_the_same_goals_mean_the_same_execution() -> None:
    one = Execution(1, "fix", ("Make n 1.", "Keep m"))
    assert one.is_same("fix", ["keep  m.", "make n 1"])
    assert not one.is_same("fix", ["Make n 2.", "Keep m"])
    assert not one.is_same("fix", ["Make N 1.", "Keep m"])
    assert not Execution(1, "fix", ("n > 1",)).is_same("fix", ["n < 1"])
    assert not Execution(1, "fix", ("n is 1",)).is_same("fix", ["n is -1"])
    assert not one.is_same("research", one.goals)


def events(*bodies: tuple[str, Any]) -> list[Event]:
    return [Event(number, "t1", path, 0, 0.0, body) for number, (path, body) in enumerate(bodies, 1)]


def with_recipe(state: State, made: Recipe) -> State:
    state.flow = Flow(name="planned", stages=made.stages, recipes={made.name: made})
    state.status = "RUNNING"
    return state


def test_the_state_follows_from_the_events() -> None:
    made = recipe()
    state = fold(
        events(
            ("planner", RecipeStarted(number=1, task_type="fix", goals=("Make n 1",))),
            ("planner/fix-1/fix-1.look", StageSkipped(stage="fix-1.look", reason="condition")),
            (
                "planner/fix-1/fix-1.work/fix-1.edit",
                StageStarted(stage="fix-1.edit", title="EDIT", attempt=1, reason="next", tools=(), turns=5),
            ),
            (
                "planner/fix-1/fix-1.work/fix-1.edit",
                StageEnded(
                    stage="fix-1.edit", ending="completed", reason="done", note=Note(summary="n is 1")
                ),
            ),
        )
    )
    progress = task_progress(state, made, state[Executions].all[0])
    assert (progress.task_type, progress.current_step, progress.max_steps) == ("fix", 2, 5)
    assert (progress.completed_steps, progress.pending_steps) == (("look", "edit"), ("check",))
    assert (progress.step_results, progress.is_complete) == ({"edit": "n is 1"}, False)
    text = render_context(with_recipe(state, made), ["Files: a.py"])
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## 0. Request",
        "## 1. Analysis",
        "## 2. Gathered context",
        "## 3. Plan",
        "## 4. Tool results",
        "## 5. State",
    ]
    assert "- pending_steps: check" in text


def test_the_document_is_bounded_and_says_what_was_cut() -> None:
    long = "x" * 50_000
    text = render_context(fold([]), [long])
    assert len(text) < 30_000
    assert "characters of section 1 cut here" in text


def test_short_sections_stay_whole_where_there_is_little_room() -> None:
    made = recipe()
    goals = ("Make n 1", "Keep m as it is")
    state = fold(
        events(
            ("planner", RecipeStarted(number=1, task_type="fix", goals=goals)),
            ("planner", RecipeStarted(number=2, task_type="fix", goals=("Another goal",))),
            ("planner", RecipeStarted(number=1, task_type="fix", goals=goals, round=2)),
            (
                "planner/fix-1/fix-1.look",
                StageStarted(stage="fix-1.look", title="LOOK", attempt=1, reason="next", tools=(), turns=5),
            ),
            (
                "planner/fix-1/fix-1.look",
                StageEnded(
                    stage="fix-1.look", ending="completed", reason="done", note=Note(summary="y" * 9_000)
                ),
            ),
        )
    )
    text = render_context(with_recipe(state, made), ["x" * 9_000], room=2_000)
    assert len(text) <= 2_000
    assert (
        '1. fix: "Make n 1; Keep m as it is" - in progress (look completed, edit pending, check pending)'
        in text
    )
    assert '2. fix: "Another goal" - not completed (look pending, edit pending, check pending)' in text
    assert "characters of section 1 cut here" in text
    assert "characters of section 4 cut here" in text
    # The one that was executed last, not the one that was begun last.
    assert text.endswith("- completed_steps: look\n- pending_steps: edit, check\n- step_results: look\n")
    assert state[Executions].last == 1


def test_a_step_goes_on_with_the_conversation_of_a_step_of_its_own_execution() -> None:
    steps = [{"id": "look"}, {"id": "tell", "needs": ["look"], "view": {"transcript": "look"}}]
    tell = expand_recipe(recipe(stages=steps), Execution(2, "fix", ("x",))).stages[1]
    assert tell.view.transcript == "fix-2.look"


def test_a_step_is_told_its_goals() -> None:
    look = next(expand_recipe(recipe(), Execution(1, "fix", ("Make n 1", "Keep m"))).leaves())
    assert look.prompt == "\n\nGoals:\n- Make n 1\n- Keep m"


def test_a_budget_may_leave_room() -> None:
    assert recipe(token_budget={"total": 9000}).token_budget.buffer == 700
