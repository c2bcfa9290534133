"""`headgate flows`: lists the flows there are, prints one as a file or a drawing, checks one's own."""

import os
from pathlib import Path
from typing import NamedTuple

import click

from headgate.cli.printing import printable, say, tell
from headgate.cli.shared import HintingGroup, find_repo, repo_option
from headgate.config import (
    FLOW_SUFFIXES,
    ScoutSettings,
    builtin_flows,
    depends_on_goal,
    draw_text,
    flow_from_config,
    load_config,
    load_flow,
    outline,
    read_yaml,
    write_flow,
)
from headgate.core import Flow, expand_flow
from headgate.engine import CHECK_SPECS, FLOW_NAMES, SPECS, find_recipes, with_recipes
from headgate.errors import ConfigError
from headgate.features.scouts.feature import with_scouts
from headgate.first_use import regex

_CHOOSING = {"flow", "task_flow_mode", "task_branching", "task_plan_mode"}
"""The keys of agent.yaml that say which flow is used."""

BUGS_ARE_REPAIRED = "Because the model is small, a task uses repair here unless it asks for something new"

_ROW = regex(r"   \w+ +")
"""What a row of a drawing begins with: its label."""

EPILOG = """\b
Examples:
  headgate flows show staged                   # what runs, stage by stage
  headgate flows show staged --as-written > my-flow.yaml
  headgate flows check my-flow.yaml            # is it valid?
  headgate flows draw my-flow.yaml             # what does it do?
  headgate flows recipes                       # what can a planner choose?
  headgate run --flow my-flow.yaml "..."
"""


class FlowsGroup(HintingGroup):
    """Knows that the name of a flow alone means to show it."""

    def meant(self) -> dict[str, str]:
        return super().meant() | {flow: f"show {flow}" for flow in builtin_flows()}


@click.group("flows", cls=FlowsGroup, invoke_without_command=True, epilog=EPILOG)
@repo_option
@click.pass_context
def command(ctx: click.Context, repo: Path | None) -> None:
    """List, show, check and draw flows.

    Without a subcommand: list the built-in flows with their stages, and the flow that tasks use here.
    """
    ctx.obj = repo
    if ctx.invoked_subcommand is None:
        list_flows(_root(ctx, repo))


@command.command("show")
@click.argument("name", metavar="NAME|FILE")
@click.option("--as-written", is_flag=True, help="Print the flow's file unchanged: a short file to copy.")
@repo_option
@click.pass_context
def show(ctx: click.Context, name: str, as_written: bool, repo: Path | None) -> None:
    """Print a flow as the tree of stages that runs.

    The output is a flow file, too. A flow's own file is shorter: `checks` and `fix` stand for a group of
    stages that repeats until the verification passes.
    """
    root, builtin = _root(ctx, repo), builtin_flows()
    if not as_written:
        flow = with_scouts(read_flow(name, root), ScoutSettings())
        click.echo(write_flow(expand_flow(flow, SPECS, CHECK_SPECS)), nl=False)
        return
    if name in builtin:
        click.echo(builtin[name].read_bytes(), nl=False)
        return
    source = locate(name, root)
    if not source.path.exists():
        load_flow(source.name, source.base)  # says what there is instead
    read_yaml(source.path, name)  # only YAML is printed: it has no characters that could steer a terminal
    click.echo(source.path.read_bytes(), nl=False)


@command.command("check")
@click.argument("file", metavar="FILE")
@repo_option
@click.pass_context
def check(ctx: click.Context, file: str, repo: Path | None) -> None:
    """Check a flow file, and say what is wrong in which line.

    If it has a planner, the recipes that this can choose are checked as well.
    """
    root = _root(ctx, repo)
    flow = read_flow(file, root)
    if root is not None:
        flow = with_recipes(flow, root, load_config(root, environ=os.environ, flags={}).config)
    count = len(list(flow.leaves()))
    recipes = f", {len(flow.recipes)} recipes" if flow.recipes else ""
    say(f"{printable(file)}: ok, {count} {'stage' if count == 1 else 'stages'}{recipes}")


@command.command("recipes")
@repo_option
@click.pass_context
def list_recipes(ctx: click.Context, repo: Path | None) -> None:
    """List the types of tasks that a planner can choose here, with their steps."""
    root = _root(ctx, repo) or find_repo()
    found = find_recipes(root, load_config(root, environ=os.environ, flags={}).config)
    width = max(map(len, found))
    for name, recipe in sorted(found.items()):
        source = f" ({printable(recipe.source)})" if recipe.source else ""
        source += " (not without a search backend)" if recipe.unavailable else ""
        say(f"{name.ljust(width)}  {printable(recipe.description)}{source}", hanging=width + 2)
        say(f"{' ' * width}  {' -> '.join(recipe.steps)}", hanging=width + 2)


@command.command("draw")
@click.argument("name", metavar="[NAME|FILE]", required=False)
@repo_option
@click.pass_context
def draw(ctx: click.Context, name: str | None, repo: Path | None) -> None:
    """Draw a flow: its stages, its gates, and where it goes back to when checks fail.

    Without a name: the flow that tasks use here, with the settings in agent.yaml.
    """
    root = _root(ctx, repo)
    if name is not None:
        flow = read_flow(name, root)
    else:
        choice = in_use(root or find_repo())
        flow = choice.flow
        if choice.or_repair:
            tell(f"{BUGS_ARE_REPAIRED}; this is {choice.name}, which other tasks use.")
    for line in draw_text(flow, SPECS, CHECK_SPECS).splitlines():
        row = _ROW.match(line)
        say(line, hanging=row.end() if row else 2)


class FlowSource(NamedTuple):
    """A flow file: as messages name it, and where that name starts."""

    name: str
    base: Path

    @property
    def path(self) -> Path:
        return self.base / self.name


class FlowChoice(NamedTuple):
    """The flow that tasks use, what it is called, and who says so."""

    flow: Flow
    name: str
    chosen_by: str
    or_repair: bool
    """A task that does not ask for something new gets `repair` instead."""


def locate(file: str, root: Path | None) -> FlowSource:
    """Where a flow file is: in the working directory, as for `run --flow`, or else in the repository."""
    if Path(file).exists():
        named = "/" in file or file.endswith(FLOW_SUFFIXES)
        return FlowSource(file if named else f"./{file}", Path())
    return FlowSource(file, root or Path())


def read_flow(name: str, root: Path | None) -> Flow:
    """A built-in flow or one in a file, with its tools known."""
    if name in builtin_flows():
        return load_flow(name, Path(), FLOW_NAMES)
    source = locate(name, root)
    return load_flow(source.name, source.base, FLOW_NAMES)


def list_flows(root: Path | None) -> None:
    """Prints the built-in flows, then the one that is used in a repository."""
    flows = {name: load_flow(name, Path(), FLOW_NAMES) for name in builtin_flows()}
    width = max(map(len, flows))
    for name, flow in flows.items():
        say(f"{name.ljust(width)}  {flow.description}", hanging=width + 2)
        say(f"{' ' * width}  {outline(flow)}", hanging=width + 2)
    if any(stage.foreach for flow in flows.values() for stage in flow.leaves()):
        say("\n* once for each step of the plan; | at the same time")
    if root is None:
        say("\nThis is not a git repository, so no flow is in use here.")
        return
    choice = in_use(root)
    say(f"\nIn use here: {printable(choice.name)} ({choice.chosen_by}): {outline(choice.flow)}", hanging=2)
    if choice.or_repair:
        say(f"{BUGS_ARE_REPAIRED}: {outline(flows['repair'])}", hanging=2)


def in_use(root: Path) -> FlowChoice:
    """The flow of a task for which none is named."""
    loaded = load_config(root, environ=os.environ, flags={})
    flow = flow_from_config(loaded.config, None, root, FLOW_NAMES, loaded.documents)
    chosen = loaded.config.flow
    name = chosen if isinstance(chosen, str) else flow.name if chosen is None else "an inline flow"
    choosing = [document.name for document in loaded.documents if _CHOOSING & document.data.keys()]
    return FlowChoice(flow, name, ["the default", *choosing][-1], depends_on_goal(loaded.config))


def _root(ctx: click.Context, repo: Path | None) -> Path | None:
    """The repository; None where none was named and there is none around the working directory."""
    named = repo or ctx.obj
    try:
        return find_repo(named)
    except ConfigError:
        if named is not None:
            raise
        return None
