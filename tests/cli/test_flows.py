"""`headgate flows`: the list, the files, the check and the pictures."""

from contextlib import chdir
from pathlib import Path

import pytest
from command import headgate, on_terminal

from headgate.cli.main import main
from headgate.config import ScoutSettings, builtin_flows, draw_text, load_flow
from headgate.core import expand_flow
from headgate.engine import CHECK_SPECS, SPECS
from headgate.features.scouts.feature import with_scouts

TWO = """\
name: two
stages:
  - Look around.
  - id: change
    tools: {allow: [write]}
"""


def outcome(repo: Path, *args: str) -> tuple[int, str, str]:
    done = headgate(repo, "flows", *args)
    return done.returncode, done.stdout, done.stderr


class Person:
    """Types `headgate flows ...` in a folder, and reads what comes of it; the process is this one."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def types(self, folder: Path, *args: str) -> tuple[int | str | None, str, str]:
        with chdir(folder), pytest.raises(SystemExit) as caught:
            main(["flows", *args])
        return caught.value.code, *self.capsys.readouterr()


@pytest.fixture
def person(capsys: pytest.CaptureFixture[str]) -> Person:
    return Person(capsys)


def test_the_list(repo: Path) -> None:
    code, out, err = outcome(repo)
    assert (code, err) == (0, "")
    for name in builtin_flows():
        assert f"\n{name} " in f"\n{out}"
        assert load_flow(name, repo).description in out
    assert "  explore -> plan -> step*\n" in out
    assert out.endswith("\nIn use here: flat (agent.yaml): work\n")


@pytest.mark.parametrize(
    ("config", "last"),
    [
        ("", "staged (the default): explore -> plan -> implement"),
        ("task_branching: true\n", "branched (agent.yaml): explore -> plan -> step*"),
        ("task_plan_mode: first\n", "staged (agent.yaml): plan -> implement"),
        ("flow: two.yaml\n", "two.yaml (agent.yaml): look-around -> change"),
        ("flow: [Do it., two.yaml]\n", "an inline flow (agent.yaml): do-it -> look-around -> change"),
    ],
)
def test_the_flow_in_use(repo: Path, config: str, last: str) -> None:
    (repo / "two.yaml").write_text(TWO)
    (repo / "agent.yaml").write_text(config)
    assert outcome(repo)[1].endswith(f"\nIn use here: {last}\n")


def test_a_small_model_has_a_flow_for_bugs_besides(repo: Path) -> None:
    (repo / "agent.yaml").write_text(
        "model: openai/qwen2.5-coder-1.5b\nverification: {steps: [{name: tests, command: 'true'}]}\n"
    )
    assert (
        "Because the model is small, a task uses repair here unless it asks for something new:"
        " fixes(mutate | short -> line -> " in outcome(repo)[1]
    )
    code, out, err = outcome(repo, "draw")
    assert (code, out.startswith("staged")) == (0, True)
    assert err == (
        "Because the model is small, a task uses repair here unless it asks for something new;"
        " this is staged, which other tasks use.\n"
    )


def test_a_broken_configuration_is_told_after_the_list(repo: Path) -> None:
    (repo / "agent.yaml").write_text("flow:\n- id: a\n  needs: [b]\n")
    code, out, err = outcome(repo)
    assert (code, err) == (2, 'headgate: agent.yaml, line 3: unknown stage "b": known are a.\n')
    assert "\nstaged " in out


def test_outside_a_repository(tmp_path: Path, person: Person) -> None:
    code, out, err = outcome(tmp_path)
    assert (code, err) == (0, "")
    assert out.endswith("\nThis is not a git repository, so no flow is in use here.\n")
    (tmp_path / "two.yaml").write_text(TWO)
    assert person.types(tmp_path, "check", "two.yaml") == (0, "two.yaml: ok, 2 stages\n", "")
    assert person.types(tmp_path, "draw", "staged")[0] == 0
    code, _, err = person.types(tmp_path, "draw")
    assert (code, "is not in a git repository" in err) == (2, True)


@pytest.mark.parametrize("name", builtin_flows())
def test_a_built_in_flow_is_shown_as_it_is_and_is_a_file_to_change(
    name: str, repo: Path, person: Person
) -> None:
    code, out, err = person.types(repo, "show", name, "--as-written")
    assert (code, out, err) == (0, builtin_flows()[name].read_text("utf-8"), "")
    (repo / "mine.yaml").write_text(out)
    count = len(list(load_flow(name, repo).leaves()))
    recipes = ", 6 recipes" if name == "planned" else ""
    ok = f"mine.yaml: ok, {count} {'stage' if count == 1 else 'stages'}{recipes}\n"
    assert person.types(repo, "check", "mine.yaml") == (0, ok, "")


@pytest.mark.parametrize("name", builtin_flows())
def test_what_is_shown_is_the_tree_that_runs_and_a_flow_file(name: str, repo: Path, person: Person) -> None:
    code, out, err = person.types(repo, "show", name)
    assert (code, err) == (0, "")
    (repo / "tree.yaml").write_text(out)
    tree = expand_flow(with_scouts(load_flow(name, repo), ScoutSettings()), SPECS, CHECK_SPECS)
    count = len(list(tree.leaves()))
    recipes = ", 6 recipes" if name == "planned" else ""
    ok = f"tree.yaml: ok, {count} {'stage' if count == 1 else 'stages'}{recipes}\n"
    assert person.types(repo, "check", "tree.yaml") == (0, ok, "")
    assert person.types(repo, "show", "tree.yaml") == (0, out, "")
    assert person.types(repo, "draw", "tree.yaml")[0] == 0


def test_the_tree_of_a_short_file(repo: Path) -> None:
    (repo / "mine.yaml").write_text(
        "stages:\n- id: look\n  tools: {allow: [read]}\n- id: work\n  needs: [look]\n"
        "checks: [diff_scope, tests_touched, verify]\n"
    )
    assert outcome(repo, "show", "mine.yaml") == (
        0,
        """\
name: mine
stages:
- id: look
  tools:
    allow: [read]
- id: rounds
  needs: [look, '*']
  repeat: {until: verify.passed, replan_every: 3, no_progress: 2, idle_attempts: 2, max: 12}
  stages:
  - id: replan
    label: REPLAN
    tools:
      allow: [read, ask_scout, reasoning, plan_tasks]
    view: {transcript: work}
    checks: {plan_written: true}
    budget: {turns: 10, retries: 0, exhausted: advance}
    advance: rules
    when: replan
  - {id: work, delivers: true}
  - id: review
    kind: review
    review:
      checks: [diff_scope]
  - id: verify
    kind: verify
    needs: [review]
  - id: tests
    kind: review
    label: A test for it?
    required: false
    needs: [verify]
    review:
      checks: [tests_touched]
""",
        "",
    )


def test_a_file_is_shown_as_it_is(repo: Path) -> None:
    text = "stages: [Größe prüfen.]  # no newline at the end"
    (repo / "mine.yaml").write_text(text, encoding="utf-8")
    assert outcome(repo, "show", "mine.yaml", "--as-written") == (0, text, "")


def test_files_are_found_from_the_working_directory_and_from_the_repository(
    repo: Path, person: Person
) -> None:
    folder = repo / "flows"
    folder.mkdir()
    (repo / "mine.yaml").write_text(TWO)
    (folder / "here.yaml").write_text(TWO)
    (folder / "plain").write_text(TWO)
    for name in ("here.yaml", "mine.yaml", "plain", "flows/here.yaml"):
        assert person.types(folder, "check", name) == (0, f"{name}: ok, 2 stages\n", "")
    for args in (("--repo", str(repo), "check"), ("check", "--repo", str(repo))):
        assert person.types(repo.parent, *args, "mine.yaml") == (0, "mine.yaml: ok, 2 stages\n", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["show", "stagd"],
            'headgate: There is no flow "stagd": did you mean "staged"? The built-in flows are ',
        ),
        (
            ["draw", "stagd"],
            'headgate: There is no flow "stagd": did you mean "staged"? The built-in flows are ',
        ),
        (
            ["check", "stagd"],
            'headgate: There is no flow "stagd": did you mean "staged"? The built-in flows are ',
        ),
        (["show", "none.yaml"], "headgate: There is no flow file none.yaml."),
        (["check", "none.yaml"], "headgate: There is no flow file none.yaml."),
        (["check", "bad.yaml"], 'headgate: bad.yaml, line 4: unknown tool or category "edit_fil": did you '),
        (["draw", "bad.yaml"], 'headgate: bad.yaml, line 4: unknown tool or category "edit_fil": did you '),
        (["show", "escape.yaml"], "headgate: escape.yaml, line 2: there is a character that YAML does not"),
        (["show", "."], "headgate: ./. is a directory, but a file was expected."),
        (["check", "staged", "--repo", "nowhere.yaml"], "headgate: nowhere.yaml does not exist."),
        (["--repo", "nowhere"], "headgate: nowhere does not exist."),
        (["shwo"], 'headgate flows: No such command "shwo": did you mean "show"?'),
        (["staged"], 'headgate flows: No such command "staged": did you mean "show staged"?'),
        (["xyzzy"], 'headgate flows: No such command "xyzzy": the commands are '),
        (["check"], "headgate flows check: Missing argument 'FILE'."),
    ],
)
def test_what_is_wrong(args: list[str], message: str, repo: Path, person: Person) -> None:
    (repo / "bad.yaml").write_text("stages:\n- id: a\n  tools:\n    allow: [edit_fil]\n")
    (repo / "escape.yaml").write_text("stages:\n- \x1b[2J\n")
    code, _, err = person.types(repo, *args)
    assert code == 2
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_drawing(repo: Path) -> None:
    drawn = draw_text(load_flow("staged", repo), SPECS, CHECK_SPECS)
    assert outcome(repo, "draw", "staged") == (0, drawn, "")
    assert on_terminal(repo, "flows", "draw", "staged", COLUMNS="300") == (0, drawn)


def test_drawing_the_flow_in_use(repo: Path) -> None:
    (repo / "agent.yaml").write_text("flow: [Do it.]\nflow_stage_retries: 7\n")
    out = outcome(repo, "draw")[1]
    assert out.startswith("custom\n\n1. do-it\n")
    assert "25 turns, 7 retries," in out


def test_recipes_are_listed_and_checked(repo: Path, person: Person) -> None:
    (repo / "team").mkdir()
    (repo / "team" / "greet.yaml").write_text("description: Say hello.\nstages: [{id: say}, {id: wave}]\n")
    (repo / "agent.yaml").write_text("recipes: [team]\n")
    code, out, err = person.types(repo, "recipes")
    assert (code, err) == (0, "")
    assert "greet        Say hello. (team/greet.yaml)\n             say -> wave\n" in out
    assert (
        "code_modify  Change existing code, and verify the change.\n             read -> edit -> verify\n"
        in out
    )
    assert person.types(repo, "check", "planned") == (0, "planned: ok, 1 stage, 7 recipes\n", "")
    (repo / "team" / "greet.yaml").write_text("description: Say hello.\nstages: [{id: say, kind: planner}]\n")
    said = "headgate: team/greet.yaml, line 2: a step of a recipe cannot be of the kind planner.\n"
    assert person.types(repo, "check", "planned") == (2, "", said)
    assert person.types(repo, "check", "staged")[0] == 0
