"""What a stage or a flow tells the model besides its prompt: parts of the instructions, and variables."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.core.settings import Data


class SystemPart(Data):
    """A named part of the instructions of a stage or a flow."""

    name: str = ""
    value: str


def system_parts(value: Any) -> Any:
    """Accepts a text, a part, or a list of parts and texts."""
    if isinstance(value, str):
        return ({"value": value},) if value else ()
    if isinstance(value, Mapping | SystemPart):
        return (value,)
    if isinstance(value, list | tuple):
        return tuple({"value": part} if isinstance(part, str) else part for part in value)
    return value


def render_parts(parts: Iterable[SystemPart]) -> str:
    """Parts of the instructions as the model reads them. A named part stands between tags with its name."""
    texts = (
        f"<{part.name}>\n{part.value.strip()}\n</{part.name}>" if part.name else part.value.strip()
        for part in parts
    )
    return "\n\n".join(filter(None, texts))


def render_variables(variables: Mapping[str, Any]) -> str:
    """One line for each variable, between tags with its name. What is not a text is written as JSON."""
    values = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in variables.items()
    }
    return "\n".join(f"<{name}>{value}</{name}>" for name, value in values.items())
