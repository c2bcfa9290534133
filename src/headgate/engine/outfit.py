"""Fitting a task out: the workspace with its guards, the tools, the verifier."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headgate.checks.verify import Verifier
from headgate.config.schema import Config
from headgate.core.access import Guard
from headgate.core.events import PlanItem
from headgate.core.task import Task
from headgate.engine.bus import Bus
from headgate.engine.folder import Folder
from headgate.host.disk import DiskWorkspace
from headgate.host.process import filtered_environment
from headgate.tools.base import Tool, ToolContext
from headgate.tools.edit import edit_file
from headgate.tools.files import find_files, ls, read_file, read_files, write_file
from headgate.tools.guards import DEFAULT_SECRETS, Boundaries, SecretFiles
from headgate.tools.patch import apply_patch
from headgate.tools.reasoning import think
from headgate.tools.search import search
from headgate.tools.shell import shell
from headgate.tools.signals import plan_tasks

TOOLS: tuple[Tool, ...] = (
    ls,
    read_file,
    read_files,
    find_files,
    search,
    write_file,
    edit_file,
    apply_patch,
    shell,
    think,
    plan_tasks,
)
"""Every tool there is, in the order in which models are shown them."""


def command_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """What commands see: nothing that looks secret, unless the configuration names it."""
    passed = {name: environ[name] for name in config.shell_env if name in environ}
    return {**filtered_environment(environ), **passed}


def without_secrets(config: Config) -> dict[str, Any]:
    """The configuration for the log: without keys, and without headers and fields that may hold one."""
    shown = config.model_dump(mode="json", exclude_defaults=True, exclude={"api_key"})
    for model in shown.get("models", {}).values():
        for name in ("api_key", "headers", "extra_body"):
            model.pop(name, None)
    return shown


def secret_patterns(config: Config) -> tuple[str, ...]:
    return (*DEFAULT_SECRETS, *config.secret_files)


def guards_for(root: Path, config: Config, task: Task) -> tuple[Guard, ...]:
    boundaries = (*config.boundaries, *task.constraints.boundaries)
    return (SecretFiles(secret_patterns(config), root), Boundaries(boundaries))


def build_context(
    folder: Folder,
    config: Config,
    task: Task,
    bus: Bus,
    redact: Callable[[str], str],
    plan: Callable[[], tuple[PlanItem, ...]],
) -> ToolContext:
    return ToolContext(
        workspace=DiskWorkspace(folder.repo, guards_for(folder.repo, config, task)),
        save_output=lambda text: folder.save_output(task.id, redact(text)),
        redact=redact,
        environment=command_environment(config, os.environ),
        result_chars=config.tool_result_chars,
        shell_timeout=config.shell_timeout,
        ripgrep=shutil.which("rg"),
        plan=plan,
        on_output=lambda line: bus.pulse("command", line),
    )


def build_verifier(folder: Folder, config: Config, bus: Bus) -> Verifier | None:
    """The verifier, or None where no steps are configured."""
    if not config.verification.steps:
        return None
    return Verifier(
        steps=config.verification.steps,
        directory=folder.repo,
        runs=folder.runs,
        environment=command_environment(config, os.environ),
        on_line=lambda line: bus.pulse("command", line),
    )
