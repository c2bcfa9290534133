"""A command that a person runs in the prompt, in the same sandbox as the commands of a task."""

import asyncio
import os
from collections.abc import Callable
from contextlib import nullcontext

from headgate.config import Config
from headgate.engine.assembly import build_sandbox, command_environment, find_sandbox, secret_patterns
from headgate.engine.resolved import resolve_package
from headgate.errors import HeadgateError
from headgate.guard import SecretScan
from headgate.log import Folder
from headgate.process import MOST_MOUNTS, CommandResult, NoSandbox, Sandbox, run_command

_SECONDS = 600.0
_MAX_OUTPUT = 2_000_000


async def run_own_command(
    folder: Folder, config: Config, command: str, on_line: Callable[[str], None]
) -> CommandResult:
    """Runs it in the repository, or in its package. HeadgateError if it cannot be started."""
    await asyncio.to_thread(folder.create)
    config = resolve_package(folder.repo, config)
    prepared = await asyncio.to_thread(_prepare, folder, config)
    with prepared.with_fresh_scratch() if prepared else nullcontext() as sandbox:
        return await run_command(
            command,
            cwd=folder.tree / (config.package or ""),
            env=command_environment(config, os.environ),
            timeout=max(_SECONDS, config.shell_timeout),
            max_output=_MAX_OUTPUT,
            on_line=on_line,
            sandbox=sandbox,
        )


def _prepare(folder: Folder, config: Config) -> Sandbox | None:
    """The sandbox with all files hidden that may hold secrets; None where there is no sandbox."""
    found = find_sandbox(config, os.environ)
    if isinstance(found, NoSandbox):
        return None
    hidden = SecretScan(folder.tree, secret_patterns(config)).look().hidden
    if len(hidden) > MOST_MOUNTS:
        raise HeadgateError(
            f"The command was not run: {len(hidden)} files may contain secrets, and the sandbox can hide"
            f" {MOST_MOUNTS}. Name those that do not in `secret_files`, such as '!tests/**'."
        )
    return build_sandbox(folder, config, found, folder.sandbox("prompt")).with_paths(hidden=hidden)
