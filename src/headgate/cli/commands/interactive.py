"""Bare `headgate`: what stands on the command line, for the interactive mode."""

from collections.abc import Callable
from pathlib import Path

from headgate.cli.interactive.start import interact
from headgate.cli.shared import find_repo_to_act, flow_argument
from headgate.core import Options


def interact_with(
    show_typing: Callable[[], None],
    *,
    repo: Path | None,
    config: Path | None,
    model: str | None,
    base_url: str | None,
    flow: str | None,
) -> int:
    """Runs the interactive mode; returns the exit code. `show_typing` is called when there is a prompt."""
    root = find_repo_to_act(repo)
    options = Options(
        flow=flow_argument(flow),
        model=model,
        base_url=base_url,
        config=str(config.absolute()) if config else None,
    )
    return interact(root, options, show_typing)
