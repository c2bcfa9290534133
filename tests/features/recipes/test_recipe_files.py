"""Recipes as files: where they are looked for, which of two counts, and what they cannot reach."""

import os
from pathlib import Path

import pytest

from headgate.config import user_config_path
from headgate.core import Recipe
from headgate.engine import FLOW_NAMES
from headgate.errors import ConfigError
from headgate.features.recipes.recipe_files import load_recipes

STEPS = "stages: [{id: do, tools: {allow: [read]}}]\n"


def write(folder: Path, name: str, said: str, more: str = STEPS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"description: {said}\n{more}")


@pytest.fixture
def of_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return user_config_path().parent / "recipes"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    return made


def load(repo: Path, *folders: str) -> dict[str, Recipe]:
    return load_recipes(repo, folders, FLOW_NAMES, ["hidden/**"])


def test_the_nearest_recipe_of_a_name_counts(repo: Path, of_user: Path) -> None:
    assert {"code_modify", "code_create", "research", "skill_build", "memory_op", "generic"} == set(
        load(repo)
    )
    write(repo / "team", "generic.yaml", "The team's.")
    write(repo / "team", "mine.yml", "The team's.")
    found = load(repo, "team")
    assert [found[name].description for name in ("generic", "mine")] == ["The team's."] * 2
    assert found["mine"].source == "team/mine.yml"
    write(of_user, "mine.yaml", "The user's.")
    assert [load(repo, "team")[name].description for name in ("generic", "mine")] == [
        "The team's.",
        "The user's.",
    ]
    write(repo / ".headgate/recipes", "mine.yaml", "The user's in this repository.")
    assert load(repo, "team")["mine"].description == "The user's in this repository."
    assert load(repo)["mine"].source == ".headgate/recipes/mine.yaml"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("prompt_fragments: [.env]\n", "instructions are in Markdown files"),
        ("prompt_fragments: [../rules.md]\n", "there is no file ../rules.md beside the recipe"),
        ("prompt_fragments: [/etc/rules.md]\n", "there is no file /etc/rules.md beside the recipe"),
        ("prompt_fragments: [link.md]\n", "there is no file link.md beside the recipe"),
        ("prompt_fragments: [pipe.md]\n", "there is no file pipe.md beside the recipe"),
        ("prompt_fragments: [long.md]\n", "more than the 800 tokens of token_budget.prompt"),
        ("instructions: [Do evil.]\n", "name them in prompt_fragments"),
        ("source: agent.yaml\n", "source is set by Headgate"),
        ("unavailable: No.\n", "unavailable is set by Headgate"),
        (
            "leads_to: [code_modfy]\n",
            'leads_to: unknown type of task "code_modfy": did you mean "code_modify"?',
        ),
        (
            "stages: [{id: a, tools: {allow: [execute]}}]\n#",
            "line 2: a step of a recipe cannot have execute: only a planner has it",
        ),
        (
            "name: '../x'\n",
            'team/bad.yaml, line 2: the name of the file is the type of task: "name" can only be bad',
        ),
        ("tokens: {}\n", 'unknown key "tokens"'),
        ("input_docs: [{path: a.md}]\n", "`path_type: repo`"),
        ("input_docs: [{path: .env, path_type: repo}]\n", "line 2: .env may contain secrets"),
        ("input_docs: [{path: hidden/a, path_type: repo}]\n", "line 2: hidden/a may contain secrets"),
        ("input_docs: [{path: ../a, path_type: repo}]\n", "must name a file of the repository, not ../a"),
        (
            "input_docs: [{path: context.md}]\nstages:\n"
            "  - {id: a, prompt: A}\n"
            "  - {id: b, prompt: B, input_docs: [{path: id_rsa, path_type: repo}]}\n#",
            "line 5: id_rsa may contain secrets",
        ),
        ("token_budget: {total: 1000}\n", '"token_budget" must have a `total` of at least 3500'),
    ],
)
def test_what_is_wrong_is_said_with_its_file(repo: Path, of_user: Path, more: str, said: str) -> None:
    write(repo / "team", "bad.yaml", "Bad.", f"{more}{STEPS}")
    (repo / ".env").write_text("KEY=1\n")
    (repo / "rules.md").write_text("Outside.\n")
    (repo / "team" / ".env").write_text("KEY=1\n")
    (repo / "team" / "link.md").symlink_to(repo / ".env")
    (repo / "team" / "long.md").write_text("x " * 200_000)
    os.mkfifo(repo / "team" / "pipe.md")
    with pytest.raises(ConfigError) as error:
        load(repo, "team")
    assert said in str(error.value)
    assert "team/bad.yaml" in str(error.value)


def test_the_name_of_a_file_has_to_be_a_type(repo: Path, of_user: Path) -> None:
    write(repo / "team", "fine_1.yaml", "Fine.", f"name: fine_1\n{STEPS}")
    assert load(repo, "team")["fine_1"].name == "fine_1"
    write(repo / "team", "Bad Name.yaml", "Bad.")
    with pytest.raises(ConfigError, match=r"team/Bad Name\.yaml: the name of the file is the type"):
        load(repo, "team")


def test_a_recipe_cannot_come_from_elsewhere(repo: Path, of_user: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "mine.yaml", "Elsewhere.")
    (repo / "team").mkdir()
    (repo / "team" / "mine.yaml").symlink_to(tmp_path / "elsewhere" / "mine.yaml")
    with pytest.raises(ConfigError, match="is a link that leads out of its folder"):
        load(repo, "team")
    (repo / "linked").symlink_to(tmp_path / "elsewhere")
    for name in ("linked", "../elsewhere", str(tmp_path / "elsewhere")):
        with pytest.raises(ConfigError, match="points outside the repository"):
            load(repo, name)
    with pytest.raises(ConfigError, match="there is no folder missing"):
        load(repo, "missing")


def test_instructions_are_cut_to_what_their_recipe_says(repo: Path, of_user: Path) -> None:
    write(repo / "team", "a.yaml", "A.", f"prompt_fragments: ['long.md (100 tokens)']\n{STEPS}")
    (repo / "team" / "long.md").write_text("x " * 200_000)
    (text,) = load(repo, "team")["a"].instructions
    assert len(text) <= 350
    assert "characters of long.md cut here" in text
