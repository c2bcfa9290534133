"""The checks of `headgate doctor`: each looks at one thing and says what it found, and how to fix it."""

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Literal

from headgate.config import Config, Loaded, ResearchSettings, depends_on_goal, find_configs, flow_from_config
from headgate.core import OWN_FOLDER, Flow, all_stages
from headgate.engine import (
    FLOW_NAMES,
    check_price,
    find_sandbox,
    guards_for,
    missing_of_steps,
    resolve_package,
    with_recipes,
)
from headgate.errors import ConfigError, HeadgateError, ToolError, describe_system
from headgate.features.research import Research, find_trafilatura
from headgate.features.scouts.feature import with_scouts
from headgate.features.skills import find_skills
from headgate.first_use import dataclass
from headgate.guard import ResolvedBoundaries
from headgate.models import profile_for
from headgate.process import NoSandbox
from headgate.tree import DiskWorkspace, GitFailed, git, without_filters

_STATUS_SECONDS = 20.0
MIN_FREE_MEGABYTES = 100
MOST_NAMES = 20
"""How many skills are shown."""


@dataclass(frozen=True)
class DoctorFinding:
    """What one check found."""

    check: str
    status: Literal["ok", "note", "warn", "fail"]
    detail: str
    fix: str = ""
    """What to do about a failure or a warning."""
    fault: Literal["", "configuration", "environment"] = ""
    """Whose a failure is."""


def configuration_fault(check: str, detail: str, fix: str = "") -> DoctorFinding:
    """A failure that the user's files or flags cause."""
    return DoctorFinding(check, "fail", detail, fix, "configuration")


def environment_fault(check: str, detail: str, fix: str = "") -> DoctorFinding:
    """A failure of something around Headgate."""
    return DoctorFinding(check, "fail", detail, fix, "environment")


def check_git(directory: Path) -> DoctorFinding:
    """Whether git is there, and which."""
    if not shutil.which("git"):
        return environment_fault("git", "not found", "Install git and put it on PATH.")
    try:
        version = git(directory, "version").decode("utf-8", "replace").strip()
    except GitFailed as error:
        return environment_fault("git", str(error), "Make `git version` work.")
    return DoctorFinding("git", "ok", version.removeprefix("git version "))


def check_repository(repo: Path) -> DoctorFinding:
    """The repository and its state."""
    try:
        flags = ("--porcelain=v2", "--branch", "-z", "--ignore-submodules=all")
        raw = git(repo, "status", *flags, env=without_filters(repo), seconds=_STATUS_SECONDS)
        out = raw.decode("utf-8", "replace")
    except GitFailed as error:
        return environment_fault("repository", f"{repo}: {error}", "Make `git status` work there.")
    entries = [entry for entry in out.split("\0") if entry]
    heads = dict(re.findall(r"# branch\.(oid|head) (.*)", "\n".join(entries)))
    changes = sum(1 for entry in entries if re.match(r"(?:[12u] [A-Z.]{2} |\? )", entry))
    state = "detached HEAD" if heads.get("head") == "(detached)" else f"on {heads.get('head', '?')}"
    if heads.get("oid") == "(initial)":
        state += ", no commits yet"
    state += f", {changes} uncommitted change{'s' * (changes != 1)}" if changes else ", clean"
    return DoctorFinding("repository", "ok", f"{repo}, {state}")


def check_disk(repo: Path) -> DoctorFinding:
    """Whether Headgate can store its data."""
    folder = repo / OWN_FOLDER if (repo / OWN_FOLDER).is_dir() else repo
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free // 2**20
    except OSError as error:
        return environment_fault("disk", f"cannot write {describe_system(error, folder)}".rstrip("."))
    if free < MIN_FREE_MEGABYTES:
        return environment_fault("disk", f"only {free} MB free in {folder}", "Free some space.")
    return DoctorFinding("disk", "ok", f"{folder} is writable")


def check_store(repo: Path) -> Iterator[DoctorFinding]:
    """Damaged stores that were set aside."""
    for path in sorted((repo / OWN_FOLDER).glob("headgate.db.damaged-*")):
        if not path.name.endswith(("-wal", "-shm")):
            detail = f"a damaged store was moved aside: {path.relative_to(repo)}"
            yield DoctorFinding("store", "note", f"{detail}; delete it if you do not need its tasks")


def check_config(loaded: Loaded) -> Iterator[DoctorFinding]:
    """What the configuration was made of."""
    used = ", ".join(loaded.sources) or "no file, environment variable or flag: defaults only"
    yield DoctorFinding("configuration", "ok", used)
    for note in loaded.notes:
        yield DoctorFinding("API key", "warn", note)


def check_sandbox(config: Config, environ: Mapping[str, str]) -> DoctorFinding:
    """What commands run in."""
    try:
        found = find_sandbox(config, environ)
    except HeadgateError as error:
        return environment_fault("sandbox", str(error))
    if isinstance(found, NoSandbox):
        return DoctorFinding(
            "sandbox", "warn", f"open: commands run without one: {found.reason}", found.advice
        )
    commands, steps = ("on" if on else "off" for on in (config.commands.network, config.verification.network))
    detail = f"sandboxed: bubblewrap; network {commands} for the model's commands, {steps} for steps"
    if found.call_filter is None:
        machine = os.uname().machine
        return DoctorFinding("sandbox", "ok", f"{detail}; system calls are not filtered on {machine}")
    return DoctorFinding("sandbox", "ok", detail)


def check_skills(config: Config, repo: Path) -> Iterator[DoctorFinding]:
    """The skills that models can load, and what looks like one and is not."""
    with contextlib.suppress(ConfigError):  # what is wrong with the package is another check's
        config = resolve_package(repo, config)
    workspace = DiskWorkspace(repo, guards_for(repo, config, ResolvedBoundaries(())))
    found = find_skills(workspace, config.skills.places(config.package))
    names = [skill.text.name for skill in found.skills]
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield DoctorFinding("skills", "ok", ", ".join(names[:MOST_NAMES]) + more)
    for sentence in found.skipped[:MOST_NAMES]:
        yield DoctorFinding("skills", "note", f"skipped: {sentence}")


def flow_of_tasks(loaded: Loaded, repo: Path) -> Flow:
    """The flow of a task for which none is named, with its recipes. ConfigError if something is wrong."""
    flow = flow_from_config(loaded.config, None, repo, FLOW_NAMES, loaded.documents)
    return with_recipes(flow, repo, loaded.config)


def check_flow(loaded: Loaded, repo: Path) -> DoctorFinding:
    """Whether the flow can be read, and its stages' tools and models are known."""
    try:
        flow = flow_of_tasks(loaded, repo)
        resolve_package(repo, loaded.config)
        if loaded.config.model:
            models = with_scouts(flow, loaded.config.scouts).models
            named = [loaded.config.model_settings(name) for name in models if name]
            with contextlib.suppress(ConfigError):  # what is wrong with the model itself is another check's
                default = loaded.config.model_settings()
                profile_for(default)
                named.append(default)
            for settings in named:
                check_price(loaded, settings)
    except ConfigError as error:
        return configuration_fault("flow", str(error))
    besides = "; tasks that do not ask for something new use repair" if depends_on_goal(loaded.config) else ""
    return DoctorFinding(
        "flow", "ok", f"{flow.name}: {', '.join(stage.id for stage in flow.stages)}{besides}"
    )


def advise_steps(repo: Path) -> str:
    """Where verification steps are to be written."""
    found = find_configs(repo)
    if found:
        return f"add them under `verification:` in {found[0]}"
    return "headgate init looks for them and writes agent.yaml"


async def check_verification(
    config: Config, repo: Path, environ: Mapping[str, str]
) -> AsyncIterator[DoctorFinding]:
    """Whether the programs and modules that the steps name are there. Nothing of the repository is run."""
    if not config.verification.steps:
        yield DoctorFinding(
            "verification",
            "note",
            f"no steps: results are reported as unverified; {advise_steps(repo)}",
        )
    missing = {}
    with contextlib.suppress(HeadgateError):  # of the sandbox or the package: another check says it
        missing = {one.step.name: one for one in await missing_of_steps(repo, config, environ)}
    for step in config.verification.steps:
        check = f"verification: {step.name}"
        one = missing.get(step.name)
        if one is None:
            yield DoctorFinding(check, "ok", step.command)
        elif one.behind and not one.sure:
            yield DoctorFinding(check, "warn", f"`{step.command}`: {one.why}", f"{one.advice}.")
        else:
            yield configuration_fault(check, f"`{step.command}`: {one.why}", f"{one.advice}.")


def check_ripgrep(environ: Mapping[str, str]) -> DoctorFinding:
    """ripgrep makes searching faster; it is not needed."""
    found = shutil.which("rg", path=environ.get("PATH", os.defpath))
    if found:
        return DoctorFinding("ripgrep", "ok", found)
    return DoctorFinding(
        "ripgrep", "note", "not found: searching works without it, but is slower in large trees"
    )


RESEARCH = "research"
RESEARCH_QUERY = "documentation"
_NO_BACKEND = "off, although the flow here can use it: tasks continue without it"
_CHOOSE_BACKEND = (
    "Set `research: {backend: searxng, url: ADDRESS}` or `{backend: ddgs}` in your own configuration file."
)
_PLAIN_PAGES = (
    "pages are read without trafilatura, which finds their main text:"
    " pip install '.[research]' in the clone of Headgate"
)


async def check_research(settings: ResearchSettings, flow: Flow | None = None) -> DoctorFinding | None:
    """A real search. A task works without it, so nothing is a failure.

    Where nothing is configured, a note if the flow of tasks, or one of its recipes, names the tool.
    """
    if settings.backend == "off":
        return (
            DoctorFinding(RESEARCH, "note", _NO_BACKEND, _CHOOSE_BACKEND)
            if flow and _names_research(flow)
            else None
        )
    try:
        found = await Research(settings).search(RESEARCH_QUERY)
    except ToolError as error:
        return DoctorFinding(RESEARCH, "warn", str(error), "Tasks run, but `research` finds nothing.")
    named = f"SearXNG at {settings.url}" if settings.backend == "searxng" else "ddgs"
    if not found:
        fix = "Check which search engines it has switched on." if settings.backend == "searxng" else ""
        return DoctorFinding(
            RESEARCH, "warn", f'{named} answers, but found nothing for "{RESEARCH_QUERY}"', fix
        )
    if await asyncio.to_thread(find_trafilatura) is None:
        return DoctorFinding(RESEARCH, "ok", f"{named} answers; {_PLAIN_PAGES}")
    return DoctorFinding(RESEARCH, "ok", f"{named} answers")


def _names_research(flow: Flow) -> bool:
    stages = [*flow.stages, *(stage for recipe in flow.recipes.values() for stage in recipe.stages)]
    return any(RESEARCH in (stage.tools.allow or ()) for stage in all_stages(stages))
