"""The tools of a task: which there are, and which of them a model is shown."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.config import Config
from headgate.core import ESCALATE_TOOL, EXECUTE_TOOL, MEMORY_TOOL, Recipe
from headgate.features.memory import TaskMemory, memory_tools
from headgate.features.recipes.feature import escalate, execute_tool
from headgate.features.research import Research, research_tool
from headgate.features.scouts.feature import ask_scout
from headgate.features.skills import skill_tools
from headgate.tools import (
    STATUS_TOOL,
    Tool,
    apply_patch,
    edit_file,
    find_files,
    ls,
    plan_tasks,
    read_file,
    read_files,
    run_tests,
    search,
    shell,
    shell_in,
    task_status,
    think,
    write_file,
)


class ToolMeans(NamedTuple):
    """What the tools of features need of a task."""

    memory: TaskMemory | None = None
    web: Research | None = None
    skill_folders: Sequence[str] = ("skills",)
    recipes: Mapping[str, Recipe] = {}


def all_tools(means: ToolMeans) -> tuple[Tool, ...]:
    """Every tool there is, in the order in which models are shown them."""
    return (
        ls,
        read_file,
        read_files,
        find_files,
        search,
        research_tool(means.web),
        ask_scout,
        write_file,
        edit_file,
        apply_patch,
        shell,
        run_tests,
        think,
        plan_tasks,
        task_status,
        execute_tool(means.recipes),
        escalate,
        *memory_tools(means.memory),
        *skill_tools(means.skill_folders),
    )


TOOLS = all_tools(ToolMeans())
"""Every tool, as it is described. Those of features cannot act."""


def tools_for(config: Config, means: ToolMeans, *, proposing: bool = False) -> tuple[Tool, ...]:
    """The tools of a task, as a model is shown them.

    In a monorepo, commands run in the package. A dry run has no tool that could write past the overlay.
    """
    tools = all_tools(means)
    real = any(tool.spec.category in ("read", "write", "run") for tool in tools)
    left_out: set[str] = set()
    if proposing:
        left_out |= {MEMORY_TOOL, *(tool.name for tool in tools if tool.spec.category == "run")}
    if not means.recipes:
        left_out |= {EXECUTE_TOOL, ESCALATE_TOOL}
    if config.task_status == "never" or (config.task_status == "auto" and not real):
        left_out.add(STATUS_TOOL)
    if not config.scouts.asks or (config.scouts.code, config.scouts.build) == ("off", "off"):
        left_out.add(ask_scout.name)
    if not config.verification.steps:
        left_out.add(run_tests.name)
    kept = tuple(tool for tool in tools if tool.name not in left_out)
    if config.package is None:
        return kept
    return tuple(shell_in(config.package) if tool is shell else tool for tool in kept)
