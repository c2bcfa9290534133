"""Paths in the tree of stages.

The path of an attempt is that of the group around it and the id of the stage: `rounds#2/verify`. The number
after a group is its round. The number after a stage is its attempt in that round. The first has no number.
A path without its last number is a *place*: `rounds#2/implement` is the place of `rounds#2/implement#3`.
"""

from typing import NamedTuple


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
