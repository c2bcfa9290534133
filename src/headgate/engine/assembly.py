"""Building what a task works with: the workspace with its guards, the tools, the verifier.

A monorepo's package is taken as the configuration has it: `resolve_package` has checked it.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from headgate.checks import Verifier
from headgate.config import Config, user_config_path
from headgate.core import OWN_FOLDER, Guard, Task, show_path
from headgate.engine.worktree import linked_folders
from headgate.errors import HeadgateError
from headgate.guard import (
    DEFAULT_SECRETS,
    REASON,
    AllowList,
    Approvals,
    AskPerson,
    Boundaries,
    ConfigFiles,
    HiddenValues,
    InstalledPackages,
    OnlyInside,
    PatternPresence,
    ProtectedTests,
    ProtectedTree,
    Redactor,
    RenamedSecrets,
    ResolvedBoundaries,
    Rule,
    SecretFiles,
    SecretScan,
    StartFiles,
    resolve_boundaries,
    spared_by_task,
    spellings_of,
)
from headgate.log import Bus, Folder
from headgate.process import (
    Bubblewrap,
    CommandLimits,
    NoSandbox,
    Sandbox,
    cache_paths,
    filtered_environment,
    find_bubblewrap,
    pythons_of,
    toolchain_paths,
)
from headgate.programs import find_program
from headgate.reading import is_code
from headgate.tools import (
    ToolContext,
)
from headgate.tree import (
    ConfinedTree,
    DiskWorkspace,
    IgnoredPaths,
    OverlayWorkspace,
    Snapshots,
    common_folder,
    git_folder,
    walk_files,
)


class SandboxMissing(HeadgateError):
    """The sandbox that the configuration demands does not work here."""


def command_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """What commands see: nothing that looks secret, unless the configuration names it."""
    passed = {name: environ[name] for name in config.shell_env if name in environ}
    return {**filtered_environment(environ), **passed}


def known_secrets(config: Config, environ: Mapping[str, str]) -> list[str]:
    """The values that commands are not given and models are not shown: keys of models, and of the user."""
    passed = filtered_environment(environ)
    settings = re.compile(r"(HEADGATE|AWS|AZURE|VAULT)_(?!.*(KEY|TOKEN|SECRET|PASS|CRED))", re.IGNORECASE)
    kept = [
        value
        for name, value in environ.items()
        if name not in passed and not settings.match(name) and not value.startswith("/")
    ]
    keys = [config.api_key, *(model.api_key for model in config.models.values())]
    return [*kept, *(key.get_secret_value() for key in keys if key)]


def without_secrets(config: Config) -> dict[str, Any]:
    """The configuration for the log: without keys, and without headers and fields that may hold one."""
    shown = config.model_dump(mode="json", exclude_defaults=True, exclude={"api_key"})
    for model in shown.get("models", {}).values():
        for name in ("api_key", "headers", "extra_body"):
            model.pop(name, None)
    return shown


def secret_patterns(config: Config) -> tuple[str, ...]:
    return (*DEFAULT_SECRETS, *config.secret_files)


def task_boundaries(repo: Path, config: Config, task: Task) -> ResolvedBoundaries:
    """What of the task's and the configuration's boundaries can be enforced, and how."""
    spared, loose, named = spared_by_task(task.request, task.constraints, config.boundaries)
    if task.protect_tests == "off":
        spared = named = ()
    boundaries = (*config.boundaries, *task.constraints.boundaries, *named)
    if not boundaries:
        return ResolvedBoundaries((), unenforced=loose, spared=spared)
    files = list(walk_files(ConfinedTree(repo), "", lambda path: True))
    found = resolve_boundaries(
        boundaries, files, spellings_of(repo, os.environ), PatternPresence(repo, files)
    )
    prose = (
        *(text for text in found.unenforced if text not in spared),
        *(text for text in loose if text not in boundaries),
    )
    return replace(found, unenforced=prose, spared=spared)


def with_spared_tests(config: Config, task: Task) -> Config:
    """The configuration of a task whose own words may forbid changing the tests."""
    if config.protect_tests != "off" or task.protect_tests == "off":
        return config
    spared = spared_by_task(task.request, task.constraints, config.boundaries)
    return config.model_copy(update={"protect_tests": "existing"}) if spared.binding else config


def protected_tests(
    snapshots: Snapshots, config: Config, task: Task, baseline: Callable[[], str]
) -> ProtectedTests | None:
    """The tests that a task may not change, if it may not; `baseline` names the git tree of its start."""
    mode = task.protect_tests or config.protect_tests
    if mode == "off":
        return None
    return known_tests(snapshots.repo, config, mode, lambda: StartFiles(*snapshots.files(baseline())))


def known_tests(
    repo: Path, config: Config, mode: Literal["existing", "all"], begun: Callable[[], StartFiles]
) -> ProtectedTests:
    """The tests of a repository, by its configuration and the files that there were at the start."""
    commands = [step.command for step in config.verification.steps]
    return ProtectedTests(mode, begun, commands, config.package or "", repo, config.test_paths)


def guards_for(
    root: Path,
    config: Config,
    boundaries: ResolvedBoundaries,
    tests: ProtectedTests | None = None,
    config_files: Sequence[str] = (),
    installed: InstalledPackages | None = None,
) -> tuple[Guard, ...]:
    """What tools may touch. Commands name files from where they run, which is the package if there is one."""
    guards: list[Guard] = [secret_guard(root, config)]
    if config.package is not None:
        guards.append(OnlyInside(config.package))
    if tests is not None:
        guards.append(tests)
    if installed is not None:
        guards.append(installed)
    return (*guards, Boundaries(boundaries.globs), ConfigFiles(config_files))


def secret_guard(root: Path, config: Config) -> Guard:
    """What keeps files for secrets from being read."""
    return SecretFiles(secret_patterns(config), root / (config.package or ""))


def protection_for(
    folder: Folder,
    task: Task,
    snapshots: Snapshots,
    boundaries: ResolvedBoundaries,
    package: str | None = None,
    tests: ProtectedTests | None = None,
    installed: InstalledPackages | None = None,
) -> ProtectedTree:
    """What commands may not change: what is out of bounds, tests, configuration, git's hooks and settings."""
    rules: list[Rule] = []
    bounds = Boundaries(boundaries.globs)
    if bounds:
        rules.append(Rule("boundaries", "it is out of bounds for this task", bounds.covers, bounds.enters))
    if package is not None:
        ignored = cache(lambda: IgnoredPaths(folder.tree))  # read with the first command, in its thread
        inside = OnlyInside(
            package, lambda path: ignored().file(path), lambda path: ignored().directory(path)
        )
        reason = f"it is outside the package {show_path(package)}"
        rules.append(Rule("package", reason, inside.covers, inside.enters))
    if tests is not None:
        rules.append(Rule("tests", REASON, tests.covers, tests.enters, tests.accepts))
    if own := ConfigFiles(task.config_files):
        rules.append(Rule("configuration", own.reason, own.covers, own.enters))
    return ProtectedTree(
        snapshots,
        rules,
        folder.protected(task.id),
        decides=lambda path, change: (
            (change != "created" and is_code(path)) or (tests is not None and tests.decides(path))
        ),
        prepared=lambda path, change: tests is not None and tests.may_be_prepared(path, change),
        left_between=["configuration"],
        installed=installed,
    )


def find_sandbox(config: Config, environ: Mapping[str, str]) -> Bubblewrap | NoSandbox:
    """What commands run in, by the configuration and by what works here.

    SandboxMissing if the configuration demands one that does not work.
    """
    if config.sandbox == "off":
        return NoSandbox("`sandbox` is `off`", "Set `sandbox: auto` in your own configuration.")
    found = find_bubblewrap(environ.get("PATH"))
    if isinstance(found, NoSandbox) and config.sandbox == "bwrap":
        raise SandboxMissing(f"`sandbox` is `bwrap`, but {found.reason}. {found.advice}")
    return found


def build_sandbox(
    folder: Folder, config: Config, bubblewrap: Bubblewrap, scratch: Path | None = None
) -> Sandbox:
    """The sandbox for the model's commands, which keep their private files in `scratch`.

    Files with secrets are hidden when a command runs. Without `scratch` it is the sandbox of the user's own
    verification steps, which may read them.
    """
    repo, home, environ = Path(os.path.realpath(folder.tree)), Path(os.path.realpath(Path.home())), os.environ
    # What a command can change is looked at now, and what is installed when there is a command.
    pythons = pythons_of(repo / (config.package or "") / name / "bin/python" for name in (".venv", "venv"))
    allowed, for_steps = config.commands, scratch is None
    linked = linked_folders(folder, config)
    secrets = SecretScan(repo, secret_patterns(config)).look().hidden if for_steps else ()
    # The scan of a task's worktree follows no links.
    named = () if for_steps or not linked else SecretScan(folder.repo, secret_patterns(config)).look().hidden
    secrets_linked = [path for path in named if any(path.is_relative_to(one) for one in linked)]
    memory = allowed.memory_mb or max(64, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 >> 22)
    return Sandbox(
        bubblewrap,
        home,
        scratch or folder.safe,
        writable=(repo, *map(_expanded, allowed.write)),
        read_only=(
            repo / ".git",
            *(Path(os.path.realpath(place)) for place in (git_folder(repo), common_folder(repo))),
            folder.outputs,
            *map(_expanded, allowed.read),
            *linked,
            *secrets,
        ),
        hidden=(
            repo / OWN_FOLDER,
            *(Path(os.path.realpath(own)) for own in (folder.path, folder.safe)),
            *secrets_linked,
        ),
        toolchain=cache(partial(toolchain_paths, home, environ, pythons)),
        caches=cache(partial(cache_paths, home)),
        writes_caches=for_steps,
        network=config.verification.network if for_steps else allowed.network,
        limits=CommandLimits(memory, allowed.processes, allowed.file_mb),
    )


def _expanded(path: str) -> Path:
    return Path(os.path.realpath(Path(path).expanduser()))


def build_context(
    folder: Folder,
    config: Config,
    task: Task,
    bus: Bus,
    redact: Redactor,
    boundaries: ResolvedBoundaries,
    *,
    snapshots: Snapshots,
    baseline: Callable[[], str],
    proposing: bool = False,
    bubblewrap: Bubblewrap | None = None,
    person: AskPerson | None = None,
) -> ToolContext:
    """The ports for a task's tools. `proposing` keeps what they write to itself.

    `baseline` is asked for the git tree of the task's start when something is first written or run. `person`
    asks somebody who watches.
    """
    package = config.package
    tests = protected_tests(snapshots, config, task, baseline)
    installed = InstalledPackages(folder.tree, everything=tests.mode == "all") if tests else None
    guards = guards_for(folder.tree, config, boundaries, tests, task.config_files, installed)
    kept_in_place = installed if bubblewrap else None
    protected = protection_for(folder, task, snapshots, boundaries, package, tests, kept_in_place)
    # Without a sandbox, a person who watches decides about commands.
    mode = config.approvals or ("never" if bubblewrap or person is None else "commands")
    allowed = AllowList(
        user_config_path().with_name("allowed.json"), config.allow_commands, config.allow_writes
    )
    approvals = Approvals("never" if proposing else mode, person, allowed)
    disk = DiskWorkspace(
        folder.tree,
        (*guards, protected.git_settings, RenamedSecrets(redact.scan), HiddenValues(redact), approvals),
        approve=approvals.approve,
        verdicts=lambda: redact.scan.latest().inside,
    )
    return ToolContext(
        workspace=OverlayWorkspace(disk) if proposing else disk,
        save_output=lambda text: folder.save_output(task.id, redact(text)),
        redact=redact,
        environment=command_environment(config, os.environ),
        result_chars=config.tool_result_chars,
        shell_timeout=config.shell_timeout,
        ripgrep=None if proposing else find_program("rg"),  # it would search the disk
        on_output=lambda line: bus.pulse("command", line),
        protected=protected,
        installed=installed,
        directory=folder.tree / package if package else None,
        sandbox=build_sandbox(folder, config, bubblewrap, folder.sandbox(task.id)) if bubblewrap else None,
        secrets=redact.scan,
    )


def build_verifier(
    folder: Folder, config: Config, bus: Bus, bubblewrap: Bubblewrap | None = None
) -> Verifier | None:
    """The verifier, or None where no steps are configured."""
    if not config.verification.steps:
        return None
    return Verifier(
        steps=config.verification.steps,
        directory=folder.tree / (config.package or ""),
        runs=folder.runs,
        environment=command_environment(config, os.environ),
        on_line=lambda line: bus.pulse("command", line),
        on_step=lambda step: bus.pulse("step", step),
        sandbox=build_sandbox(folder, config, bubblewrap) if bubblewrap else None,
    )
