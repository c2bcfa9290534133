"""The tools of a task: which there are, and which of them a model is shown."""

from collections.abc import Mapping

from headgate.config import Config
from headgate.core import ESCALATE_TOOL, EXECUTE_TOOL, Recipe
from headgate.tools import (
    Tool,
    apply_patch,
    ask_scout,
    edit_file,
    escalate,
    execute_tool,
    find_files,
    load_skill,
    ls,
    make_skill,
    memory_save,
    memory_search,
    plan_tasks,
    read_file,
    read_files,
    research,
    run_tests,
    search,
    shell,
    shell_in,
    task_status,
    think,
    write_file,
)

TOOLS: tuple[Tool, ...] = (
    ls,
    read_file,
    read_files,
    find_files,
    search,
    research,
    ask_scout,
    write_file,
    edit_file,
    apply_patch,
    shell,
    run_tests,
    think,
    plan_tasks,
    task_status,
    execute_tool({}),
    escalate,
    memory_search,
    memory_save,
    load_skill,
    make_skill,
)
"""Every tool there is, in the order in which models are shown them."""


def tools_for(
    config: Config, *, proposing: bool = False, recipes: Mapping[str, Recipe] | None = None
) -> tuple[Tool, ...]:
    """The tools as a model is shown them. `recipes`: what a planner of the flow may choose.

    In a monorepo, commands run in the package. A dry run has no tool that could write past the overlay.
    """
    tools = [
        tool for tool in TOOLS if not (proposing and (tool.spec.category == "run" or tool is memory_save))
    ]
    of_planner = {EXECUTE_TOOL: execute_tool(recipes or {}), ESCALATE_TOOL: escalate}
    tools = [of_planner.get(tool.name, tool) for tool in tools if recipes or tool.name not in of_planner]
    real = any(tool.spec.category in ("read", "write", "run") for tool in tools)
    if config.task_status == "never" or (config.task_status == "auto" and not real):
        tools = [tool for tool in tools if tool is not task_status]
    if not config.scouts.asks or (config.scouts.code, config.scouts.build) == ("off", "off"):
        tools = [tool for tool in tools if tool is not ask_scout]
    if not config.verification.steps:
        tools = [tool for tool in tools if tool is not run_tests]
    if config.package is None:
        return tuple(tools)
    return tuple(shell_in(config.package) if tool is shell else tool for tool in tools)
