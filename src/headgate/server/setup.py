"""What a task would be carried out with now: the model, its server, the branch; the models to choose from."""

import os
from dataclasses import dataclass
from pathlib import Path

from headgate.config import Config, provider_of, show_address
from headgate.core import Options
from headgate.engine import ConfigReader
from headgate.errors import ConfigError, HeadgateError
from headgate.models import find_endpoint
from headgate.tree import run_git


@dataclass(frozen=True, slots=True)
class Setup:
    """What the start page says about it."""

    model: str = ""
    server: str = ""
    """The address; empty for a script."""
    branch: str = ""
    """Empty where HEAD names no branch."""
    choices: tuple[tuple[str, str], ...] = ()
    """The other models of the configuration: the name, and the model that it stands for."""
    problem: str = ""
    """Why no task can be submitted."""


def read_setup(repo: Path) -> Setup:
    """What the configuration and git say now."""
    branch = _branch(repo)
    try:
        config = _config(repo)
        settings = config.model_settings()
        is_script = provider_of(settings.model) == "script"
        server = "" if is_script else show_address(find_endpoint(settings).root)
    except ConfigError as error:
        return Setup(branch=branch, problem=str(error))
    choices = tuple((name, entry.model) for name, entry in config.models.items() if name != config.model)
    return Setup(settings.model, server, branch, choices)


def check_choice(repo: Path, model: str) -> None:
    """ConfigError if the configuration does not name this model.

    Whoever asks may be on another machine, and sends no code to a server that nobody here has named.
    """
    config = _config(repo)
    names = list(dict.fromkeys(filter(None, (config.model, *config.models))))
    if model not in names:
        known = f"choose one of {', '.join(names)}" if names else "it names none"
        raise ConfigError(f'The configuration has no model "{model}": {known}.')


def _config(repo: Path) -> Config:
    return ConfigReader(repo, os.environ)(Options()).config


def _branch(repo: Path) -> str:
    try:
        return run_git(repo, "branch", "--show-current").stdout.decode("utf-8", "replace").strip()
    except HeadgateError:
        return ""
