"""What the verification steps come to now, as findings of `headgate doctor --checks`."""

from pathlib import Path

from headgate.cli.checkup import Finding, environment_fault
from headgate.cli.modelcheck import Say
from headgate.cli.steps import run_steps, say_result
from headgate.config.schema import Config
from headgate.core.rules import Broken, Pass
from headgate.errors import ConfigError

_RED = "Tasks that start now will know that this step failed before they began. See {log}."


async def check_steps(config: Config, repo: Path, say: Say) -> list[Finding]:
    """Runs the steps. One that fails is a warning: the work is red, not the installation."""
    try:
        found = await run_steps(repo, config, lambda step: say(f"Running {step.name}: {step.command}"))
    except ConfigError as error:
        return [Finding("checks", "note", str(error))]
    findings = []
    for ran in found.ran:
        name, result = f"check: {ran.step.name}", say_result(ran)
        match ran.verdict:
            case Pass():
                findings.append(Finding(name, "ok", result))
            case Broken(reason):
                findings.append(environment_fault(name, reason, f"See {found.log}."))
            case _:
                findings.append(Finding(name, "warn", result, _RED.format(log=found.log)))
    if found.broken and not any(finding.fault for finding in findings):
        findings.append(environment_fault("checks", found.broken))
    return findings
