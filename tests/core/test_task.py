"""Free text into a goal and its constraints."""

import pytest

from headgate.core import Constraints, Task, parse_task_text

SEED = """Fix the authentication timeout bug in the login flow.

Constraints:
- Don't modify the session storage mechanism
- Preserve backward compatibility with existing tokens

Non-goals:
- Don't refactor the auth module
- Don't add new dependencies
"""


def test_the_specification_s_example() -> None:
    parsed = parse_task_text(SEED)
    assert (parsed.request, parsed.constraints) == (
        "Fix the authentication timeout bug in the login flow.",
        Constraints(
            keep=(
                "Don't modify the session storage mechanism",
                "Preserve backward compatibility with existing tokens",
            ),
            non_goals=("Don't refactor the auth module", "Don't add new dependencies"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "goal", "constraints"),
    [
        ("Just do it", "Just do it", Constraints()),
        (
            "Do it\nBOUNDARIES:\n* `migrations/**`\n* docs",
            "Do it",
            Constraints(boundaries=("migrations/**", "docs")),
        ),
        ("Do it\n## Non-goals:\n1. this\n2) that", "Do it", Constraints(non_goals=("this", "that"))),
        ("Do it\n**Constraints:**\n• one\n  more of one", "Do it", Constraints(keep=("one more of one",))),
        ("Off limits: vendor/\nDo it", "Do it", Constraints(boundaries=("vendor/",))),
        ("Constraints:\n- a\n\nThen do it", "Then do it", Constraints(keep=("a",))),
        ("Note: the parser\nfails", "Note: the parser\nfails", Constraints()),
        ("Constraints:\nkeep the API", "", Constraints(keep=("keep the API",))),
    ],
)
def test_sections(text: str, goal: str, constraints: Constraints) -> None:
    assert parse_task_text(text) == (goal, constraints, goal)


@pytest.mark.parametrize(
    ("text", "request_", "goal"),
    [
        ("Fix it.\n\nGoal: it works.\n\nBoundaries: db", "Fix it.\n\nGoal: it works.", "it works."),
        ("## Goal\n\nIt works\nquickly.\n\n## Boundaries\n- db", "It works\nquickly.", "It works\nquickly."),
        ("Goal: it works.\nBoundaries: db", "it works.", "it works."),
        ("- Goals:\n  - a\n  - b\n- Fix it", "- Goals:\n  - a\n  - b\n- Fix it", "a\nb"),
        ("The goal: nothing\nelse", "The goal: nothing\nelse", "The goal: nothing\nelse"),
    ],
)
def test_the_goal_that_a_text_states(text: str, request_: str, goal: str) -> None:
    parsed = parse_task_text(text)
    assert (parsed.request, parsed.goal) == (request_, goal)
    task = Task(id="t1", text=text, goal=parsed.goal, constraints=parsed.constraints)
    assert task.request == request_


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Boundaries:\ndb/**\nFix the login so that it works.", "Fix the login so that it works."),
        ("Boundaries:\n\nFix the login so that it works.", "Fix the login so that it works."),
        ("Boundaries: db/**\n\n- fix the login\n- fix the logout", "- fix the login\n- fix the logout"),
        ("- Boundaries: db/**\n- Fix the login", "- Fix the login"),
        ("Boundaries:\ndb/**\n\nfix the login", "fix the login"),
        ("Boundaries:\ndb/**\n## Steps\nfix the login", "## Steps\nfix the login"),
        ("Boundaries:\ndb/**\nSteps:\n- fix the login", "Steps:\n- fix the login"),
        ("Boundaries:\n- db/**\nFix it", "Fix it"),
        (
            "Parse this:\n```\nBoundaries:\n- x\n```\nBoundaries: db/**",
            "Parse this:\n```\nBoundaries:\n- x\n```",
        ),
        ("Boundaries:\ndb/**\nsrc/auth/**", ""),
        ("Boundaries: db/**\nNon-goals: none", ""),
    ],
)
def test_what_is_asked_for_is_never_taken_for_a_boundary(text: str, rest: str) -> None:
    parsed = parse_task_text(text)
    assert parsed.request == rest
    assert all("fix" not in item.lower() for item in parsed.constraints.boundaries)
    assert parsed.constraints.non_goals == ()


def test_constraints_add_up_without_doubles() -> None:
    first, second = Constraints(keep=("a",)), Constraints(keep=("a", "b"), boundaries=("x",))
    assert first + second == Constraints(keep=("a", "b"), boundaries=("x",))


def test_rendering() -> None:
    assert Constraints().render() == ""
    assert Constraints(keep=("a",), boundaries=("x",)).render() == (
        "Constraints (must be preserved):\n- a\n\nBoundaries (must not be written):\n- x"
    )
