"""The settings of a run: kept beside its results, so that only the same run can go on."""

import hashlib
import os
from pathlib import Path

import orjson
from pydantic import ValidationError

from headgate.bench.exercise_run import Terms
from headgate.bench.facts import RunFacts
from headgate.bench.results import write_whole
from headgate.config import show_address, write_flow
from headgate.core import Data
from headgate.errors import ConfigError

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

    @property
    def server(self) -> str:
        """The address of the model server; empty if the provider's default or each exercise decides."""
        return show_address(self.base_url)


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
