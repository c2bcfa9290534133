"""The project's own checks as a tool. The runtime runs them; the tool only asks."""

from headgate.tools.base import Args, Outcome, Signal, ToolContext, tool


class RunTests(Args):
    """run_tests takes no arguments."""


@tool("run")
def run_tests(ctx: ToolContext, args: RunTests) -> Outcome:
    """Run the project's verification steps, as the runtime does after the last stage."""
    return Outcome("", signal=Signal("run_tests", {}))
