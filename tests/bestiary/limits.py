"""A model that would go on for ever, against each of the hard caps on a task."""

from dataclasses import replace

from bestiary.rows import Theme
from bestiary.speech import Answer, Asked, use

LIMITS = Theme("Hard caps")


def _write_for_ever(asked: Asked) -> Answer:
    reply = use("write_file", path="notes.md", content=f"Note {asked.number}\n")
    return replace(reply, usage={"prompt_tokens": 1_000, "completion_tokens": 100})


for name, limits, model in (
    ("turns", {"turns": 5}, {}),
    ("tokens", {"tokens": 5_000}, {}),
    ("seconds", {"seconds": 1e-9}, {}),
    ("cost", {"cost": 5.0}, {"price": {"input": 1_000.0}}),
):
    LIMITS.add(
        f"cap_on_{name}",
        f"Writes forever, with a cap on {name}.",
        _write_for_ever,
        "flat",
        settings={"limits": limits},
        model=model,
    )
