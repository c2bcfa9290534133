"""`headgate doctor`: is everything there that a task needs?"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from headgate.cli.commands.verify import say_result, verify_tree
from headgate.cli.model_checks import PATIENCE, Say, examine_model
from headgate.cli.printing import tell
from headgate.cli.setup_checks import (
    DoctorFinding,
    check_config,
    check_disk,
    check_flow,
    check_git,
    check_repository,
    check_research,
    check_ripgrep,
    check_sandbox,
    check_skills,
    check_store,
    check_verification,
    configuration_fault,
    environment_fault,
    flow_of_tasks,
)
from headgate.cli.shared import (
    EXIT_ENVIRONMENT,
    EXIT_SUCCESS,
    EXIT_USAGE,
    config_option,
    find_repo,
    model_options,
    repo_option,
)
from headgate.cli.terminal import fold_lines, terminal_width
from headgate.config import Config, load_config
from headgate.core import Broken, Pass
from headgate.engine import known_tests, resolve_package
from headgate.errors import ConfigError
from headgate.guard import Boundaries, StartFiles
from headgate.tree import ConfinedTree, walk_files

_RED = "Tasks that start now will know that this step failed before they began. See {log}."


async def check_steps(config: Config, repo: Path, say: Say) -> list[DoctorFinding]:
    """Runs the steps. One that fails is a warning: the work is red, not the installation."""
    try:
        found = await verify_tree(repo, config, lambda step: say(f"Running {step.name}: {step.command}"))
    except ConfigError as error:
        return [DoctorFinding("checks", "note", str(error))]
    findings = []
    for ran in found.ran:
        name, result = f"check: {ran.step.name}", say_result(ran)
        match ran.verdict:
            case Pass():
                findings.append(DoctorFinding(name, "ok", result))
            case Broken(reason):
                findings.append(environment_fault(name, reason, f"See {found.log}."))
            case _:
                findings.append(DoctorFinding(name, "warn", result, _RED.format(log=found.log)))
    if found.broken and not any(finding.fault for finding in findings):
        findings.append(environment_fault("checks", found.broken))
    return findings


CHECK = "protected tests"
SHOWN = 6


def check_protected_tests(config: Config, repo: Path) -> DoctorFinding:
    """What is protected when tests are: by `protect_tests`, and in benchmark mode."""
    files = tuple(walk_files(ConfinedTree(repo), "", lambda path: True))
    try:
        config = resolve_package(repo, config)
    except ConfigError:  # another check says what is wrong with it
        config = config.model_copy(update={"monorepo": None})
    mode = "existing" if config.protect_tests == "off" else config.protect_tests
    tests = known_tests(repo, config, mode, lambda: StartFiles(files)).tests()
    idle = [
        glob
        for glob in config.test_paths
        if glob[:1] != "!" and not any(map(Boundaries([glob]).covers, files))
    ]
    if idle:
        detail = f"test_paths: {', '.join(idle)} matches no file"
        return DoctorFinding(CHECK, "warn", detail, "Correct `test_paths` in agent.yaml.")
    if not tests:
        fix = "Name them in agent.yaml, such as `test_paths: [checks/**]`."
        if config.protect_tests == "off":
            return DoctorFinding(CHECK, "note", "none: no file looks like a test, and no step names one", fix)
        detail = f"protect_tests is {mode}, but no file looks like a test, and no step names one"
        return DoctorFinding(CHECK, "warn", detail, fix)
    count = f"{len(tests)} file{'s' * (len(tests) != 1)}"
    detail = f"{count}: {describe_files(tests)}"
    if config.protect_tests == "off":
        return DoctorFinding(CHECK, "note", f"protect_tests is off; --benchmark protects {detail}")
    return DoctorFinding(CHECK, "ok", detail)


def describe_files(paths: Iterable[str]) -> str:
    """Files by the topmost folder in which they lie, as patterns with counts; the most first."""
    groups = Counter(f"{path.partition('/')[0]}/**" if "/" in path else path for path in paths)
    shown = [
        f"{name} ({count})" if name.endswith("/**") else name for name, count in groups.most_common(SHOWN)
    ]
    more = len(groups) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


_MARKS = {"ok": "✓", "note": "·", "warn": "!", "fail": "✗"}
_PLAIN_MARKS = {"ok": "ok  ", "note": "note", "warn": "WARN", "fail": "FAIL"}


@click.command("doctor")
@repo_option
@config_option
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON list.")
@click.option("--fresh", is_flag=True, help="Check again how the model calls tools.")
@click.option("--checks", is_flag=True, help="Also run the verification steps.")
def command(
    repo: Path | None,
    config: Path | None,
    model: str | None,
    base_url: str | None,
    as_json: bool,
    fresh: bool,
    checks: bool,
) -> int:
    """Check git, the configuration and the model.

    Asks the model one short question, which it should answer with a tool call, and waits at most three
    minutes. Headgate remembers for a week how the model calls tools. The verification commands run only with
    --checks; a failed step is a warning. The exit code is 2 if the configuration is wrong, and 3 if something
    outside Headgate fails, such as a model server that is down.
    """
    flags = {"model": model, "base_url": base_url}
    return asyncio.run(_report(repo, config, flags, as_json, fresh, checks))


async def _report(
    repo: Path | None,
    config: Path | None,
    flags: Mapping[str, str | None],
    as_json: bool,
    fresh: bool,
    checks: bool,
) -> int:
    findings: list[DoctorFinding] = []
    marks = _MARKS if _can_print(_MARKS) else _PLAIN_MARKS

    def say(line: str) -> None:
        if sys.stderr.isatty() and not as_json:
            tell(line)

    async for finding in examine(repo, config, flags, os.environ, say, fresh=fresh, checks=checks):
        findings.append(finding)
        if not as_json:
            indent = len(marks["ok"]) + 1
            width = terminal_width(sys.stdout)
            line = f"{marks[finding.status]} {finding.check}: {finding.detail}"
            click.echo(fold_lines(line, width, indent))
            if finding.fix:
                click.echo(fold_lines(" " * indent + finding.fix, width, indent))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    faults = {finding.fault for finding in findings}
    if "configuration" in faults:
        return EXIT_USAGE
    return EXIT_ENVIRONMENT if "environment" in faults else EXIT_SUCCESS


async def examine(
    repo: Path | None,
    config_file: Path | None,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    say: Say = lambda line: None,
    patience: float = PATIENCE,
    fresh: bool = False,
    checks: bool = False,
) -> AsyncIterator[DoctorFinding]:
    """Every check, in an order in which each makes sense of the next; what cannot be checked is left out.

    `say` is told what is being waited for, `patience` seconds at most; `fresh` asks the model also what is
    remembered of it; `checks` runs the verification steps.
    """
    git_found = check_git(Path.cwd())
    yield git_found
    try:
        root = find_repo(repo)
    except ConfigError as error:
        yield configuration_fault("repository", str(error))
        return
    if git_found.status == "ok":
        yield check_repository(root)
    yield check_disk(root)
    for finding in check_store(root):
        yield finding
    yield check_ripgrep(environ)
    try:
        loaded = load_config(root, config_file=config_file, environ=environ, flags=flags)
    except ConfigError as error:
        yield configuration_fault("configuration", str(error))
        return
    for finding in check_config(loaded):
        yield finding
    yield check_sandbox(loaded.config, environ)
    yield check_flow(loaded, root)
    for finding in check_skills(loaded.config, root):
        yield finding
    async for finding in check_verification(loaded.config, root, environ):
        yield finding
    yield check_protected_tests(loaded.config, root)
    if checks and loaded.config.verification.steps:
        for finding in await check_steps(loaded.config, root, say):
            yield finding
    flow = None
    with suppress(ConfigError):  # what is wrong with it was said before
        flow = flow_of_tasks(loaded, root)
    if searching := await check_research(loaded.config.research, flow):
        yield searching
    async for finding in examine_model(loaded.config, root, say, patience, fresh, environ):
        yield finding


def _can_print(marks: dict[str, str]) -> bool:
    try:
        "".join(marks.values()).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
