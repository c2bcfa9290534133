"""What a user has answered once and for all, in small JSON files beside the user's own configuration."""

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson


def read_remembered(path: Path) -> dict[str, Any]:
    """The answers in a file; none if it is missing or damaged."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remember(path: Path, answers: dict[str, Any]) -> None:
    """Replaces the answers in a file. A reader sees either the old ones or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as file:
        file.write(orjson.dumps(answers, option=orjson.OPT_INDENT_2))
    Path(file.name).replace(path)
