"""A verification that passed, held against what its runners printed."""

from dataclasses import replace
from pathlib import Path

import orjson

from headgate.checks.closing import doubtful_result
from headgate.checks.failures_base import plain_lines
from headgate.checks.verify import MANIFEST, TAIL_LINES, Verification
from headgate.core.rules import Broken, Fail
from headgate.host.capture import MAX_LOG


def unless_cut_short(found: Verification, folder: Path) -> Verification:
    """A run that passed does not count if a known test runner did not get to say so itself."""
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
        logs = [(step, _read_log(folder / step["log"])) for step in manifest["steps"]]
    except (OSError, ValueError) as error:
        return replace(found, verdict=Broken(f"the logs of {folder.name} cannot be read: {error}"))
    for number, (step, output) in enumerate(logs):
        if step["passed"] and output is not None and (doubt := doubtful_result(step["command"], output)):
            steps = list(found.steps)
            steps[number] = steps[number].model_copy(update={"passed": False})
            tail = "\n".join(plain_lines(output)[-TAIL_LINES:])
            reason = f'step "{step["name"]}" ({step["command"]}) {doubt}'
            return replace(found, verdict=Fail("verify_failed", reason), steps=tuple(steps), tail=tail)
    return found


def _read_log(log: Path) -> str | None:
    """What a step printed; None if it was too much for the log, so that its end is not known."""
    with log.open("rb") as file:
        logged = file.read(MAX_LOG + 1)
    return None if len(logged) > MAX_LOG else logged.decode("utf-8", "replace")
