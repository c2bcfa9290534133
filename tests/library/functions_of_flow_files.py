"""What the flow files of test_flow_files name."""

from typing import Any

from pydantic import BaseModel

from headgate import tool


class Sources(BaseModel):
    items: list[str]


@tool(category="read")
def search(query: str) -> str:
    """Search."""
    return f"nothing about {query}"


def has_some(sources: Sources) -> bool | str:
    return bool(sources.items) or "There are none."


def never(situation: Any) -> bool:
    return situation.variables["topic"] != "bees"
