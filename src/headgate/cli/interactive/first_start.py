"""What is said and asked before the prompt appears: whether there is a configuration, and a model."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import click

from headgate.cli.commands.init import choose_model_here, look_at_project, say_found, write_first_config
from headgate.cli.interactive.kept_lines import Answers
from headgate.cli.printing import say
from headgate.config import CONFIG_NAME, Loaded, find_configs, is_on_this_machine
from headgate.errors import ConfigError
from headgate.models import find_endpoint

_DECLINED = "no agent.yaml"
_CONNECT_SECONDS = 2.0


def offer_config(root: Path, answers: Answers, show_typing: Callable[[], None]) -> None:
    """Offers to write agent.yaml where a repository has none. A no is remembered."""
    if find_configs(root) or answers.has(_DECLINED):
        return
    detection = look_at_project(root)
    show_typing()
    say(f"This repository has no {CONFIG_NAME} yet.")
    say_found(detection)
    for step in detection.steps:
        say(f"  {step.name}: {step.command}")
    try:
        wanted = click.confirm(f"Write {CONFIG_NAME} with this, and look for a model server?", default=True)
    except click.Abort:
        say()
        return
    if wanted:
        write_first_config(root, detection, choose_model_here(), at_prompt=True)
    else:
        answers.add(_DECLINED)
    say()


async def model_problem(loaded: Loaded) -> str:
    """What is wrong with the model, in a sentence; nothing if a task can ask it, as far as one can see here.

    A server on another machine is not asked: nobody has wanted anything of it yet.
    """
    try:
        settings = loaded.config.model_settings()
        address = find_endpoint(settings).root if not settings.model.startswith("script:") else ""
    except ConfigError as error:
        return f"{error} /model NAME chooses one for now."
    if not address or not is_on_this_machine(address):
        return ""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, port)
        writer.close()
    except OSError:
        return f"No model server answers at {address}: start it, or choose another model with /model."
    return ""
