"""What a task is carried out with: configuration, package, flow and models, found once and passed on.

Whoever submits a task resolves its configuration and stores it as a pin. If the same process carries the task
out, it uses the same object. Another process makes it once, from the pin.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from headgate import run
from headgate.checks import Check
from headgate.config import (
    Config,
    FlowNames,
    Loaded,
    config_files,
    flow_from_config,
    load_config,
    require_checks,
    unpin,
)
from headgate.core import (
    DRIVE,
    PLANNER,
    RESEARCH_TOOL,
    Flow,
    Model,
    Options,
    Recipe,
    State,
    Task,
    ToolSpec,
    all_stages,
    expand_flow,
    parse_task_text,
    show_path,
)
from headgate.engine.feature_list import ALL_CHECKS, FEATURES, KINDS
from headgate.engine.flow_models import FlowModel, check_price, find_models
from headgate.engine.tool_list import TOOLS
from headgate.errors import ConfigError
from headgate.features.recipes.feature import load_recipes, without_tool
from headgate.features.research import NOT_CONFIGURED
from headgate.features.scouts.feature import with_scouts
from headgate.first_use import dataclass
from headgate.log import Folder
from headgate.models import (
    check_model,
)
from headgate.tools import Tool
from headgate.tree import internal_name

SPECS = tuple(tool.spec for tool in TOOLS)


@dataclass(frozen=True)
class FlowParts:
    """What a flow may name besides tools."""

    checks: Mapping[str, Check] = field(default_factory=lambda: ALL_CHECKS)
    """The checks, by name; they run in this order."""
    kinds: Mapping[str, run.Kind] = field(default_factory=lambda: KINDS)
    """What a stage can be, by name."""
    flow: Flow | None = None
    """The flow of every task, in place of the one that the configuration names."""
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Tools of the program that runs the flow, by name. They replace others of the same name."""
    stage_tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    """Tools that only one stage has: by the stage's id, then by name."""
    code: Mapping[str, Any] = field(default_factory=dict)
    """The functions and types that the flow names, by reference."""
    features: Sequence[run.Feature] = FEATURES
    """What takes part in the loop besides."""

    def check_code(self, flow: Flow) -> None:
        """ConfigError if a flow names a function, a type or a tool that this program has not handed in.

        So too if the schema of an output is none.
        """
        if flow.tools:
            raise ConfigError(
                f"The flow {flow.name} needs {flow.tools[0]}, which only a Python program can hand in: run it"
                " with headgate.run_flow."
            )
        for stage in all_stages(flow.stages):
            if stage.output_schema is not None and (fault := run.find_schema_fault(stage.output_schema)):
                raise ConfigError(f'Stage "{stage.id}": {fault}.')
            named = [name for name in stage.references if name not in self.code]
            named += [name for name in stage.tools.add if name not in self.stage_tools.get(stage.id, {})]
            if named:
                raise ConfigError(
                    f'Stage "{stage.id}" needs {named[0]}, which only a Python program can hand in: run the'
                    " flow with headgate.run_flow."
                )

    @property
    def names(self) -> FlowNames:
        """What a flow may name, for reading it."""
        checks = [check.spec for check in self.checks.values()]
        return FlowNames(SPECS, checks, {name: kind.settings for name, kind in self.kinds.items()})

    def expand(self, flow: Flow, tools: Iterable[ToolSpec]) -> Flow:
        """The tree that runs. ConfigError if it names something that this process does not have.

        The process that submitted the task may have had more checks and kinds.
        """
        specs = [check.spec for check in self.checks.values()]
        require_checks(flow, specs)
        self.check_code(flow)
        tree = expand_flow(flow, tools, specs)
        for leaf in tree.leaves():
            missing = [name for name in leaf.settings.get("checks", ()) if name not in self.checks]
            if leaf.kind not in self.kinds or missing:
                what = f"the check {missing[0]}" if missing else f"the kind {leaf.kind}"
                raise ConfigError(f'Stage "{leaf.id}" needs {what}, which this process does not have.')
        return tree


PARTS = FlowParts()
"""What ships with Headgate."""
FLOW_NAMES = PARTS.names
CHECK_SPECS = tuple(check.spec for check in ALL_CHECKS.values())
"""What a check is called, and what may be written under its name."""


def find_recipes(repo: Path, config: Config, parts: FlowParts = PARTS) -> dict[str, Recipe]:
    """The recipes that a planner may choose in a repository, by name. ConfigError if one is wrong."""
    found = load_recipes(repo, config.recipes, parts.names, config.secret_files)
    if config.research.backend != "off":
        return found
    return {name: without_tool(recipe, RESEARCH_TOOL, NOT_CONFIGURED) for name, recipe in found.items()}


def with_recipes(flow: Flow, repo: Path, config: Config, parts: FlowParts = PARTS) -> Flow:
    """The flow with what its planner may choose, if it has one."""
    if not any(leaf.kind == PLANNER for leaf in flow.leaves()):
        return flow
    return flow.model_copy(update={"recipes": find_recipes(repo, config, parts)})


def choose_flow(
    loaded: Loaded, options: Options, folder: Folder, goal: str = "", parts: FlowParts = PARTS
) -> Flow:
    """The flow that a task is carried out with; ConfigError where there is none such."""
    if options.dry_run:
        goal = ""  # a flow that suits the goal may run the check first, which a dry run does not
    flow = parts.flow or flow_from_config(
        loaded.config, options.flow, folder.repo, parts.names, loaded.documents, goal
    )
    parts.check_code(flow)
    flow = with_scouts(flow, loaded.config.scouts)
    flow = with_recipes(flow, folder.repo, loaded.config, parts)
    if options.dry_run and not any(
        leaf.kind in ("talk", DRIVE, PLANNER) and not leaf.candidates for leaf in flow.leaves()
    ):
        raise ConfigError(
            f"The flow {flow.name} runs commands, and a dry run runs none: choose another flow."
        )
    begins = flow.begin == "verify" or any(leaf.kind == "suspects" for leaf in flow.leaves())
    if begins and not loaded.config.verification.steps:
        raise ConfigError(
            f"The flow {flow.name} starts with the verification steps, and none are configured: "
            "set verification.steps in agent.yaml, or choose another flow."
        )
    return flow


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """What one task is carried out with."""

    loaded: Loaded
    """The configuration and where it came from. Its package, if it has one, is a canonical path."""
    flow: Flow
    models: tuple[FlowModel, ...]
    """The models that the flow's stages ask, with the addresses of their servers."""
    parts: FlowParts
    """What the flow may name besides tools."""

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def servers(self) -> tuple[tuple[str, str], ...]:
        """Each model with its server's address; a script has none."""
        return tuple(dict.fromkeys((model.settings.model, model.address) for model in self.models))

    def task_fields(self, repo: Path, options: Options) -> dict[str, Any]:
        """The fields of a task that depend on the configuration."""
        verifies = self.flow.verifies or self.flow.begin == "verify"
        steps = self.config.verification.steps if verifies else ()
        return {
            "package": self.config.package,
            "config_files": config_files(repo, self.loaded, config=options.config, flow=options.flow),
            "models": self.servers,
            "steps": tuple(step.command for step in steps),
        }


def load_options(repo: Path, options: Options, environ: Mapping[str, str]) -> Loaded:
    """The configuration for a task: what was asked for with it, over what this process finds."""
    file = Path(options.config) if options.config else None
    return load_config(repo, config_file=file, environ=environ, flags=_flags(options))


def _flags(options: Options) -> dict[str, str | None]:
    return options.model_dump(include={"model", "base_url", "flow", "package"})


class ConfigReader:
    """Reads the configuration for the tasks of one command: once, unless options ask for another one."""

    def __init__(self, repo: Path, environ: Mapping[str, str]) -> None:
        self._repo, self._environ = repo, environ
        self._read: dict[tuple[str | None, ...], Loaded] = {}

    def __call__(self, options: Options) -> Loaded:
        key = (options.config, *_flags(options).values())
        if key not in self._read:
            self._read[key] = load_options(self._repo, options, self._environ)
        return self._read[key]


def resolve(
    loaded: Loaded,
    options: Options,
    request: str,
    folder: Folder,
    given: Mapping[str | None, Model],
    parts: FlowParts = PARTS,
) -> ResolvedConfig:
    """What a new task is to be carried out with; ConfigError if something of it cannot be used.

    `given` are models that take the place of the configuration's.
    """
    config = resolve_package(folder.repo, loaded.config, "--package" if options.package else "")
    loaded = replace(loaded, config=config)
    flow = choose_flow(loaded, options, folder, request, parts)
    models = find_models(config, flow, given)
    for model in models:
        if model.handed_in is None:
            check_model(model.settings, folder.repo)
            check_price(loaded, model.settings)
    return ResolvedConfig(loaded, flow, models, parts)


def resolve_stored(
    task: Task,
    pin: str,
    state: State,
    present: Loaded | None,
    folder: Folder,
    given: Mapping[str | None, Model],
    parts: FlowParts = PARTS,
) -> ResolvedConfig:
    """What a task is carried out with that another process submitted: what its pin and its log say.

    `present` is the configuration to use instead of the pinned one. Versions before this one stored no pin:
    their tasks need it.
    """
    flow = state.flow
    if pin:
        stored, stored_flow = unpin(pin, os.environ, _flags(task))
        loaded, flow = present or stored, flow or stored_flow
    else:
        assert present is not None
        loaded = present
        flow = flow or choose_flow(loaded, task, folder, parse_task_text(task.text).request, parts)
    models = find_models(loaded.config, flow, given)
    recorded = replace(loaded, config=as_recorded(loaded.config, state.config))
    return ResolvedConfig(recorded, flow, models, parts)


def as_recorded(config: Config, recorded: Mapping[str, Any]) -> Config:
    """The configuration of a resumed task: the recorded one, except for how models are reached."""
    if not recorded:
        return config
    begun = Config.model_validate(recorded)
    kept = set(Config.model_fields) - {"model", "base_url", "api_key", "models"}
    return config.model_copy(update={name: getattr(begun, name) for name in kept})


def resolve_package(repo: Path, config: Config, source: str = "") -> Config:
    """The configuration with the package that tasks write in, if it names one, as a canonical path.

    ConfigError if the configuration, or the option `source`, names something that is no directory of this
    repository.
    """
    named = config.package
    if named is None:
        return config
    said = source or "agent.yaml: monorepo.package"
    root = Path(os.path.realpath(repo))
    try:
        place = Path(os.path.realpath(root / named))
        package = place.relative_to(root).as_posix()
        if not place.exists():
            raise ConfigError(f"{said}: there is no directory {named}.")
        if not place.is_dir():
            raise ConfigError(f"{said}: {named} is a file; name the package's directory.")
    except ValueError:
        raise ConfigError(f"{said}: {show_path(named)} points outside the repository.") from None
    if package == ".":
        raise ConfigError(f"{said} is the repository itself: name a directory in it, or leave it out.")
    if internal_name(package):
        raise ConfigError(f"{said}: {named} is not a package.")
    return config.with_package(package)
