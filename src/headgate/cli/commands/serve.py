"""`headgate serve`: the API and the page for this repository."""

import asyncio
import os
import re
from pathlib import Path

import click

from headgate.cli.printing import tell
from headgate.cli.shared import find_repo_to_act, repo_option
from headgate.errors import ConfigError

INSTALL = (
    "run pipx install --force '.[server]' or uv tool install '.[server]' in the clone of Headgate, or "
    "pip install '.[server]' in its environment"
)


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8321,
    show_default=True,
    help="The port to listen at. 0 chooses a free one.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Another name under which people open the page. Repeatable.",
)
@click.option("--no-worker", is_flag=True, help="Only show and queue tasks; another process runs them.")
@repo_option
def command(host: str, port: int, allow_host: tuple[str, ...], no_worker: bool, repo: Path | None) -> None:
    """Serve a page and an API for this repository.

    Open the printed address to submit tasks, watch them, review diffs and apply them. Tasks that other
    commands submit are run and shown, too.

    Only this machine can reach the server. To listen at another address, set HEADGATE_TOKEN to a secret of
    your own: browsers then ask for it, and programs send it as a bearer token. Headgate does not encrypt;
    put a proxy with TLS in front of it.

    Ctrl-C stops the server. A task that is running then continues when headgate serve, run or submit is
    started again.
    """
    try:
        from headgate.server import ServerSettings, serve
    except ModuleNotFoundError as error:
        raise ConfigError(f"The server is not installed ({error.name} is missing): {INSTALL}.") from None

    for name in allow_host:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            raise ConfigError(f"--allow-host {name}: give only the name, such as box.example.org.")
    token = os.environ.get("HEADGATE_TOKEN", "").strip()  # nobody can type the line end of a file
    settings = ServerSettings(host, port, token, allow_host, works=not no_worker)
    asyncio.run(serve(find_repo_to_act(repo), settings, tell))
