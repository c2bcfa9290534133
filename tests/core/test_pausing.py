"""What fails one task and would fail the next."""

from typing import Any

import pytest

from headgate.core import Task, holds_up

HERE, THERE = "http://here/v1", "http://there/v1"


def task(**fields: Any) -> Task:
    given = {"models": (("openai/a", HERE),), "steps": ("make test",), **fields}
    return Task(id="t1", text="x", goal="x", **given)


PLAIN = task()
OTHER_OPTIONS = task(model="a", base_url=HERE, config="/other.yaml", flow="flat", dry_run=True)
OTHER_MODEL = task(models=(("openai/b", HERE),))
OTHER_SERVER = task(models=(("openai/a", THERE),))
TWO_MODELS = task(models=(("openai/b", THERE), ("openai/a", HERE)))
OTHER_STEPS = task(steps=("make check",))
MORE_STEPS = task(steps=("make lint", "make test"))
NO_STEPS = task(steps=())
OLD = task(models=(), steps=())
"""A task that an older version stored."""


@pytest.mark.parametrize(
    ("reason", "failed", "following", "held"),
    [
        ("model_unavailable", PLAIN, PLAIN, True),
        ("model_refused", PLAIN, OTHER_OPTIONS, True),
        ("model_unavailable", PLAIN, OTHER_STEPS, True),
        ("model_unavailable", PLAIN, OTHER_MODEL, False),
        ("model_refused", PLAIN, OTHER_SERVER, False),
        ("model_unavailable", PLAIN, TWO_MODELS, True),
        ("model_unavailable", TWO_MODELS, PLAIN, False),
        ("model_unavailable", OLD, PLAIN, True),
        ("check_broken", PLAIN, OTHER_OPTIONS, True),
        ("check_broken", PLAIN, OTHER_MODEL, True),
        ("check_broken", PLAIN, OTHER_STEPS, False),
        ("check_broken", PLAIN, MORE_STEPS, True),
        ("check_broken", MORE_STEPS, PLAIN, False),
        ("check_broken", PLAIN, NO_STEPS, False),
        ("check_broken", PLAIN, task(package="web"), False),
        ("check_broken", OLD, PLAIN, True),
        ("environment", PLAIN, OTHER_MODEL, True),
        ("crash", PLAIN, PLAIN, False),
        ("crash_loop", PLAIN, PLAIN, False),
        ("store_damaged", PLAIN, PLAIN, False),
        ("cancelled", PLAIN, PLAIN, False),
        ("conflict", PLAIN, PLAIN, False),
    ],
)
def test_holds_up(reason: str, failed: Task, following: Task, held: bool) -> None:
    assert holds_up(reason, failed, following) is held
