"""The tree of stages: paths in it, and which stages a stage builds on.

The path of an attempt is that of the group around it and the id of the stage: `rounds#2/verify`. The number
after a group is its round. The number after a stage is its attempt in that round. The first has no number.
A path without its last number is a *place*: `rounds#2/implement` is the place of `rounds#2/implement#3`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headgate.core.flow import REST, Stage


class Parts(NamedTuple):
    """What a path consists of."""

    parent: str
    """The path of the group around it; empty for the flow itself."""
    name: str
    """The id of the stage."""
    number: int
    """Its attempt, or its round."""


def join_path(parent: str, name: str, number: int = 1) -> str:
    """The path of a stage in a group."""
    own = name if number == 1 else f"{name}#{number}"
    return f"{parent}/{own}" if parent else own


def split_path(path: str) -> Parts:
    """The parts of a path."""
    parent, _, own = path.rpartition("/")
    name, _, number = own.partition("#")
    return Parts(parent, name, int(number or 1))


def place_of(path: str) -> str:
    """A path without its last number."""
    parent, name, _ = split_path(path)
    return join_path(parent, name)


def stage_ids(path: str) -> tuple[str, ...]:
    """The ids of the groups around a stage and its own, from the outside in."""
    return tuple(part.partition("#")[0] for part in path.split("/"))


def stages_before(stages: Sequence[Stage], stage: Stage) -> set[str] | None:
    """The ids of the stages whose notes a stage receives; None if the stage is not among these.

    Those are the stages that it needs, what those need, and the same for the groups around it. A stage that
    names none builds on all that have ended. Steps of the plan also receive the notes of other steps.
    """
    for own in stages:
        inner = stages_before(own.stages, stage) if own.stages else None
        step = bool(own.foreach and stage.item and stage.id.startswith(f"{own.id}-"))
        if inner is None and own.id != stage.id and not step:
            continue
        by_id = {each.id: each for each in stages}
        named = [need for need in own.needs if need != REST]
        before = [by_id[name] for name in _needed(named, by_id)] if named else [*stages]
        ids = {leaf.id for each in before if each is not own for leaf in each.leaves()}
        return ids | (inner or set()) | ({own.id} if step else set())
    return None


def _needed(names: Iterable[str], by_id: Mapping[str, Stage]) -> set[str]:
    """These stages and all that they need."""
    found: set[str] = set()
    todo = [name for name in names if name in by_id]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [need for need in by_id[name].needs if need in by_id]
    return found
