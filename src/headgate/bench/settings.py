"""What a run depends on, and when and where it was: kept beside its results."""

import hashlib
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import orjson
from pydantic import ValidationError

import headgate
from headgate.bench.exercise_run import Terms
from headgate.bench.results import write_whole
from headgate.config import write_flow
from headgate.core import Data
from headgate.errors import ConfigError
from headgate.tree import GitFailed, run_git

SETTINGS = "settings.json"
NOWHERE = Path(os.devnull)
"""A place without an agent.yaml: that of an exercise counts only for the exercise."""
_WORDS = {
    "exercises": "the exercises in",
    "model": "the model",
    "base_url": "the server",
    "tries": "tries:",
    "timeout": "the timeout",
    "commands": "the commands",
    "flow": "the flow",
    "flow_text": "another version of the flow",
    "config_text": "another configuration",
}


class RunFacts(Data):
    """What was true when a run started. Results do not depend on it as they do on the settings."""

    started: str
    """When, in UTC."""
    version: str
    """Headgate's version."""
    commit: str = ""
    """Headgate's own commit, if it runs from a clone."""
    exercises_commit: str = ""
    """The last commit of the exercises, if git has them."""
    machine: str
    """The system, its processors and memory, and Python: not the name of the machine."""


class RunSettings(Data):
    """What results depend on."""

    exercises: str
    model: str
    """The model's name; empty if each exercise names its own."""
    base_url: str
    tries: int
    timeout: float | None
    commands: dict[str, str]
    flow: str
    flow_text: str
    """A digest of the flow itself."""
    config_text: str
    """A digest of the configuration."""
    runs: tuple[RunFacts, ...] = ()
    """When and where they were made: an entry for each command that added some. They do not depend on it."""


def describe_run(folder: Path, terms: Terms, *, needs_model: bool) -> RunSettings:
    """The settings of a run. ConfigError if the flow or the configuration cannot be used.

    `needs_model`: there are exercises that do not name a model themselves.
    """
    loaded = terms.load(NOWHERE)
    config = loaded.config
    if needs_model:
        config.model_settings()
    flow = terms.find_flow(loaded, NOWHERE)
    shown = config.model_dump(mode="json", exclude={"api_key", "model", "base_url"})
    return RunSettings(
        exercises=str(folder.resolve()),
        model=config.model or "",
        base_url=config.base_url or "",
        tries=terms.tries,
        timeout=terms.seconds,
        commands=dict(sorted(terms.commands.items())),
        flow=terms.flow,
        flow_text=_digest(write_flow(flow).encode()),
        config_text=_digest(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)),
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def keep_settings(out: Path, settings: RunSettings, facts: RunFacts) -> None:
    """Writes the settings of a run; ConfigError if the results in the folder have other ones."""
    file = out / SETTINGS
    known = read_settings(out) if file.exists() else settings
    if known is None:
        raise ConfigError(f"{file} cannot be read: use another --out.")
    _check_same(known, settings, out)
    kept = known.model_copy(update={"runs": (*known.runs, facts)})
    write_whole(file, orjson.dumps(kept.model_dump(mode="json"), option=orjson.OPT_INDENT_2))


def _check_same(known: RunSettings, settings: RunSettings, out: Path) -> None:
    for name, words in _WORDS.items():
        before, now = getattr(known, name), getattr(settings, name)
        if before != now:
            what = f"{words} {before or 'none'}, not {now or 'none'}" if not name.endswith("_text") else words
            raise ConfigError(
                f"The results in {out} are for {what}: use the same settings, or another --out."
            )


def read_settings(out: Path) -> RunSettings | None:
    """The settings that a folder with results has; None if they cannot be read."""
    try:
        return RunSettings.model_validate_json((out / SETTINGS).read_bytes())
    except (ValidationError, OSError):
        return None


def observe_facts(exercises: Path, now: float) -> RunFacts:
    """What is true now. Blocking, for a moment."""
    package = Path(headgate.__file__).resolve().parent
    clone = package.parent.parent
    return RunFacts(
        started=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        version=headgate.__version__,
        commit=_commit(clone) if (clone / "pyproject.toml").is_file() else "",
        exercises_commit=_commit(exercises.resolve()),
        machine=_describe_machine(),
    )


def _commit(folder: Path) -> str:
    """The last commit that changed something in a folder, and whether something there is not committed."""
    places = (folder, *folder.parents)
    root = next((place for place in places if (place / ".git").exists()), None)
    if root is None:
        return ""
    try:
        found = run_git(root, "log", "-1", "--abbrev=12", "--format=%h", "HEAD", "--", str(folder))
        changed = run_git(root, "status", "--porcelain", "--untracked-files=no", "--", str(folder))
    except (GitFailed, OSError):
        return ""
    commit = found.stdout.decode().strip()
    if found.returncode or changed.returncode or not commit:
        return ""  # such as a repository without commits
    return f"{commit}{' with changes' if changed.stdout.strip() else ''}"


def _describe_machine() -> str:
    count = os.cpu_count() or 1
    processors = f"{count} processor{'' if count == 1 else 's'}"
    try:
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB of memory"
    except (OSError, ValueError):
        memory = ""
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    return ", ".join(filter(None, (system, processors, memory, f"Python {platform.python_version()}")))
