"""Functions whose annotations are strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel


class Place(BaseModel):
    name: str


def visit(place: Place) -> str:
    return f"visited {place.name}"


def make_unknown() -> Callable[..., Any]:
    class Fruit(BaseModel):
        weight: int

    def weigh(fruit: Fruit) -> str:
        return f"{fruit.weight} g"

    return weigh
