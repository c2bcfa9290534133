"""The user's own configuration, and beside it, in small JSON files, what a user has answered for good."""

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
import platformdirs


def user_config_path() -> Path:
    """Where the user's own configuration is."""
    return platformdirs.user_config_path("headgate") / "config.yaml"


def show_own_config() -> str:
    """Where the user's own configuration is, as people write it: `~/.config/headgate/config.yaml`."""
    path, home = user_config_path(), Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


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
