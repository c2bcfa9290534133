"""The shell tool: one command, in the repository's root, with everything it started gone when it ends."""

from pydantic import Field

from headgate.core.messages import clean_text
from headgate.errors import ToolArgsInvalid, ToolFailed
from headgate.host.process import CommandUnavailable, run_command
from headgate.tools.base import Args, Outcome, ToolContext, tool
from headgate.tools.output import cap, plain

MAX_TIMEOUT = 600.0
"""Seconds that a call may ask for, unless the configured time is longer still."""
_MAX_CAPTURE = 2_000_000


class Shell(Args):
    """Arguments of shell."""

    command: str = Field(description="A bash command, run in the repository's root")
    timeout: float | None = Field(default=None, description="Seconds")


@tool("run")
async def shell(ctx: ToolContext, args: Shell) -> Outcome:
    """Run a command; returns its output and exit code. Background processes die with the call."""
    if not args.command.strip():
        raise ToolArgsInvalid("shell: `command` is empty.")
    if args.timeout is not None and not args.timeout > 0:
        raise ToolArgsInvalid("shell: `timeout` has to be more than 0 seconds.")
    ctx.workspace.check_run(args.command)
    seconds = min(args.timeout or ctx.shell_timeout, max(MAX_TIMEOUT, ctx.shell_timeout))
    try:
        result = await run_command(
            args.command,
            cwd=ctx.workspace.root,
            env=ctx.environment,
            timeout=seconds,
            max_output=_MAX_CAPTURE,
            on_line=ctx.on_output,
        )
    except CommandUnavailable as error:
        raise ToolFailed(str(error)) from error
    if result.timed_out:
        status = f"timed out after {seconds:g} s; the command and its children were killed"
    else:
        status = f"exit code {result.exit_code}"
    output = ctx.redact(plain(clean_text(result.output))).rstrip("\n") or "(no output)"
    return Outcome(cap(output, ctx.result_chars - len(status) - 1, ctx.save_output) + "\n" + status)
