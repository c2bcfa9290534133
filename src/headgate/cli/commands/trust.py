"""`headgate trust`: allows a repository's configuration to give commands more than they get by default."""

from pathlib import Path

import click

from headgate.cli.shared import find_repo_to_act, repo_option
from headgate.config import TrustedFiles, find_configs, read_yaml, user_config_path, widening
from headgate.errors import ConfigError


@click.command("trust")
@repo_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(repo: Path | None, yes: bool) -> int:
    """Allow what this repository's agent.yaml gives to commands.

    A repository's file may not switch the sandbox off, pass secrets to commands or give them the network
    unless you allow it. This command shows what the file asks for and remembers your answer. After a change
    of the file, you have to allow it again.
    """
    root = find_repo_to_act(repo)
    user_file = user_config_path()
    names = find_configs(root)
    if not names:
        raise ConfigError(f"{root} has no agent.yaml.")
    document = read_yaml(root / names[0], names[0])
    users = read_yaml(user_file).data if user_file.exists() else {}
    found = list(widening(document.data, users))
    if not found:
        click.echo(f"{document.name} asks for nothing that needs your trust.")
        return 0
    for place, what in found:
        click.echo(f"{document.name}, line {document.line_of(place)}: {what}.")
    if not yes:
        click.confirm("Allow this?", abort=True)
    TrustedFiles(user_file).add(document.digest, root / names[0])
    click.echo(f"Allowed, as long as {document.name} stays as it is.")
    return 0
