"""Free text into a goal and its constraints."""

import pytest

from headgate.core.task import Constraints, parse_task_text

SEED = """Fix the authentication timeout bug in the login flow.

Constraints:
- Don't modify the session storage mechanism
- Preserve backward compatibility with existing tokens

Non-goals:
- Don't refactor the auth module
- Don't add new dependencies
"""


def test_the_specification_s_example() -> None:
    assert parse_task_text(SEED) == (
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
    assert parse_task_text(text) == (goal, constraints)


def test_constraints_add_up_without_doubles() -> None:
    first, second = Constraints(keep=("a",)), Constraints(keep=("a", "b"), boundaries=("x",))
    assert first + second == Constraints(keep=("a", "b"), boundaries=("x",))


def test_rendering() -> None:
    assert Constraints().render() == ""
    assert Constraints(keep=("a",), boundaries=("x",)).render() == (
        "Constraints (must be preserved):\n- a\n\nBoundaries (must not be written):\n- x"
    )
