"""The shell tool: one command, with everything it started gone when it ends.

What it did to files that commands may not change is undone, also when it was killed or the task is cancelled.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import orjson
from pydantic import Field

from headgate.core import clean_text, plain
from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.first_use import regex
from headgate.guard import Restored, protected_while
from headgate.process import MOST_MOUNTS, CommandUnavailable, Sandbox, run_command
from headgate.tools.base import Args, Outcome, Tool, ToolContext, cap, tool

MAX_TIMEOUT = 600.0
"""Seconds that a call may ask for, unless the configured time is longer still."""
ROOT = "the repository root"
_MAX_CAPTURE = 2_000_000
_MAX_TOLD = 20
MOST_READ_ONLY = 300
"""Protected files that are mounted for a command. The time for mounts grows with the square of their number:
bubblewrap reads the list of all mounts again for each one."""
_READ_ONLY = regex("Read-only file system|Device or resource busy|EROFS|EBUSY")
_NO_NETWORK = regex(
    "Could not resolve host|Network is unreachable|Temporary failure in name resolution"
    "|Name or service not known|ENOTFOUND|EAI_AGAIN|ENETUNREACH"
)
_MORE = "\n... and {} more paths like these."


class Shell(Args):
    """Arguments of shell."""

    command: str = Field(description=f"A bash command, run in {ROOT}")
    timeout: float | None = Field(default=None, description="Seconds")


@tool("run")
async def shell(ctx: ToolContext, args: Shell) -> Outcome:
    """Run a command; returns its output and exit code. Background processes are killed when it ends."""
    if not args.command.strip():
        raise ToolArgsInvalid("shell: `command` is empty.")
    if args.timeout is not None and not args.timeout > 0:
        raise ToolArgsInvalid("shell: `timeout` must be more than 0 seconds.")
    await asyncio.to_thread(ctx.workspace.check_run, args.command)  # a person may be asked
    seconds = min(args.timeout or ctx.shell_timeout, max(MAX_TIMEOUT, ctx.shell_timeout))
    restored: list[Restored] = []
    try:
        async with protected_while(ctx.protected, restored):
            result = await run_command(
                args.command,
                cwd=ctx.directory or ctx.workspace.root,
                env=ctx.environment,
                timeout=seconds,
                max_output=_MAX_CAPTURE,
                on_line=ctx.on_output,
                sandbox=await asyncio.to_thread(_prepare_sandbox, ctx),
            )
    except CommandUnavailable as error:
        raise ToolFailed(str(error)) from error
    finally:
        if ctx.secrets is not None:
            ctx.secrets.expect_changes()
    if result.timed_out:
        status = f"timed out after {seconds:g} s; the command and its children were killed"
    else:
        status = f"exit code {result.exit_code}"
    status += _explain_sandbox(ctx, result.output) + _tell(restored, ctx.result_chars // 2)
    told = "timed out" if result.timed_out else f"exit code {result.exit_code}" if result.exit_code else ""
    output = ctx.redact(plain(clean_text(result.output))).rstrip("\n") or "(no output)"
    text = cap(output, ctx.result_chars - len(status) - 1, ctx.save_output) + "\n" + status
    return Outcome(text, restored=tuple(one.sentence() for one in restored[:_MAX_TOLD]), told=told)


def _explain_sandbox(ctx: ToolContext, output: str) -> str:
    """What a small model cannot know from the system's own message."""
    sandbox = ctx.sandbox
    if sandbox is None:
        return ""
    if not sandbox.network and _NO_NETWORK.search(output):
        return "\nCommands have no network here."
    if not _READ_ONLY.search(output):
        return ""
    if not sandbox.writable:
        return "\nCommands cannot change files in this stage."
    installed = "installed packages, " if ctx.installed and ctx.installed.folders() else ""
    return (
        f"\nCommands cannot change tests, {installed}git's own files, paths out of bounds or files elsewhere."
    )


def _prepare_sandbox(ctx: ToolContext) -> Sandbox | None:
    """The sandbox for the files that there are now: some are read-only, those with secrets are hidden.

    Protected files beyond the limit are not mounted, only put back afterwards. Those that decide how tests
    run are mounted first. ToolFailed if too many files would have to be hidden.
    """
    hidden = ctx.secrets.look().hidden if ctx.secrets else ()
    if ctx.sandbox is None:
        return None  # the scan is needed here too: it lets tools refuse these files under other names
    if len(hidden) > MOST_MOUNTS:
        raise ToolFailed(
            f"The command was not run: {len(hidden)} files may contain secrets, and the sandbox can hide"
            f" {MOST_MOUNTS}. Ask the user to name those that do not in `secret_files`, such as '!tests/**'."
        )
    paths = ctx.protected.paths() if ctx.protected else ()
    if ctx.protected and len(paths) > MOST_READ_ONLY:
        paths = tuple(dict.fromkeys([*ctx.protected.paths(deciding=True), *paths]))
    sandbox = ctx.sandbox.with_paths(read_only=paths[:MOST_READ_ONLY], hidden=hidden)
    if ctx.installed is None or not sandbox.writable:
        return sandbox
    return sandbox.with_paths(read_only=ctx.installed.folders(), writable=ctx.installed.caches())


def _tell(restored: Sequence[Restored], room: int) -> str:
    """A line for each path, as many as there is room for."""
    lines = ""
    for number, one in enumerate(restored):
        line = f"\n{one.sentence()}"
        if number == _MAX_TOLD or len(lines) + len(line) > room - len(_MORE):
            return lines + _MORE.format(len(restored) - number)
        lines += line
    return lines


def shell_in(directory: str) -> Tool:
    """The shell tool as a model is shown it where commands run in a directory of the repository."""
    text = orjson.dumps(shell.spec.parameters).decode().replace(ROOT, f"the directory {directory}")
    return replace(shell, spec=replace(shell.spec, schema=orjson.loads(text)))


# The project's own checks as a tool.


class RunTests(Args):
    """run_tests takes no arguments."""


@tool("run")
async def run_tests(ctx: ToolContext, args: RunTests) -> str:
    """Run the project's verification steps, as the runtime does after the last stage."""
    return await ctx.stage.run_tests()
