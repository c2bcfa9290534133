"""What the commands share: options, finding the repository, and exit codes.

`main` imports this module, so it imports little.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])

_FLOW_SUFFIXES = (".yaml", ".yml", ".json")


class PathType(click.Path):
    """A path, for which nothing is imported until one is given."""

    def coerce_path_result(self, value: "str | os.PathLike[str]") -> "Path":
        from pathlib import Path

        return Path(value)


class HintingGroup(click.Group):
    """Names what was probably meant by a word that is no command."""

    def meant(self) -> dict[str, str]:
        """Words that may have been meant, and what to type for each; the commands come first."""
        return {name: name for name in self.commands}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            from headgate.core import nearest

            meant = self.meant()
            close = nearest(word, meant)
            names = ", ".join(name for name, typed in meant.items() if name == typed)
            hint = f'did you mean "{meant[close]}"?' if close else f"the commands are {names}."
            raise click.UsageError(f'No such command "{word}": {hint}', ctx)
        return super().resolve_command(ctx, args)


def repo_option(function: F) -> F:
    """Adds `--repo DIR`, passed on as `repo: Path | None` for `find_repo`."""
    return click.option(
        "--repo",
        type=PathType(),
        metavar="DIR",
        help="The repository to work in.  [default: the git root of the working directory]",
    )(function)


def config_option(function: F) -> F:
    """Adds `--config FILE`, passed on as `config: Path | None`."""
    return click.option(
        "--config",
        type=PathType(),
        metavar="FILE",
        help="Use this configuration file instead of the repository's agent.yaml.",
    )(function)


def model_options(function: F) -> F:
    """Adds `--model M` and `--base-url U`, passed on as `model` and `base_url`."""
    function = click.option(
        "--base-url", metavar="URL", help="The model server's address, such as http://localhost:11434/v1."
    )(function)
    return click.option(
        "--model",
        metavar="MODEL",
        help="ollama/NAME, openai/NAME, anthropic/NAME, script:FILE or a name from `models`.",
    )(function)


def package_option(function: F) -> F:
    """Adds `--package DIR`, passed on as `package: str | None` for `package_argument`."""
    return click.option(
        "--package", metavar="DIR", help="The package of a monorepo that this task works on."
    )(function)


def package_argument(value: str | None, root: "Path") -> str | None:
    """A `--package` as the task keeps it: from the repository's root, unless the working directory has it."""
    from pathlib import Path

    if value and Path(value).is_dir() and Path(value).resolve().is_relative_to(root):
        return Path(value).resolve().relative_to(root).as_posix()
    return value


def find_repo(directory: "Path | None" = None) -> "Path":
    """The root of the git repository around a directory (default: the working directory)."""
    from pathlib import Path

    try:
        start = (directory or Path()).resolve(strict=True)
    except FileNotFoundError:
        raise ConfigError(f"{directory or 'The working directory'} does not exist.") from None
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{directory or 'The working directory'} cannot be opened: {error}.") from None
    if not start.is_dir():
        raise ConfigError(f"{directory} is not a directory: --repo takes the directory of a git repository.")
    for folder in (start, *start.parents):
        mark = folder / ".git"
        if folder.parent.parts[-2:] == (".headgate", "worktrees") and mark.is_file():
            continue  # a task's own tree: its store is that of the repository around it
        if (mark / "HEAD").exists() or mark.is_file():
            return folder
        if _is_git_directory(folder):
            raise ConfigError(
                f"{folder} is a bare repository or inside one: Headgate needs a working tree, "
                "such as `git clone` creates."
            )
    raise ConfigError(f'{start} is not in a git repository: run "git init" there, or name one with --repo.')


def find_repo_to_act(directory: "Path | None" = None) -> "Path":
    """The repository for a command that acts for the user. The commands of a task may not do that."""
    from headgate.process import is_inside_command

    repo = find_repo(directory)
    if is_inside_command(repo):
        raise ConfigError("A command of a task cannot act for the user: run this yourself, in a terminal.")
    return repo


def flow_argument(value: str | None) -> str | None:
    """A `--flow` as the task keeps it: a file is named from the working directory, so it becomes absolute."""
    from pathlib import Path

    if value and ("/" in value or value.endswith(_FLOW_SUFFIXES)) and Path(value).exists():
        return str(Path(value).resolve())
    return value


def _is_git_directory(folder: "Path") -> bool:
    return all((folder / name).exists() for name in ("HEAD", "objects", "refs"))


EXIT_SUCCESS = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
EXIT_CANCELLED = 130
EXIT_BROKEN_PIPE = 141
"""Nobody reads standard output any more: the code of a process that SIGPIPE ends."""

EXIT_CODE_MEANINGS = {
    EXIT_SUCCESS: "success, or a proposal",
    EXIT_FAILED: "stuck, changes that no longer fit, or a failed verification step",
    EXIT_USAGE: "usage or configuration",
    EXIT_ENVIRONMENT: "environment",
    EXIT_CANCELLED: "cancelled",
}
"""What the help and the documentation say."""

EXIT_CODES = {
    "SUCCESS": EXIT_SUCCESS,
    "PROPOSED": EXIT_SUCCESS,
    "STUCK": EXIT_FAILED,
    "INFRA_ERROR": EXIT_ENVIRONMENT,
    "CANCELLED": EXIT_CANCELLED,
    "QUEUED": EXIT_ENVIRONMENT,
}
"""The exit code for the state of a task that a command has followed.

A task that is still QUEUED when nobody works any more is behind one that the environment failed.
"""
