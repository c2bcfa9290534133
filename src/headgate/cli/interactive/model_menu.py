"""The models that `/model` offers: those of the configuration, and those that the server in use has."""

import asyncio
from dataclasses import field

from headgate.cli.printing import printable
from headgate.config import Config, show_address
from headgate.core import ModelSettings
from headgate.errors import ConfigError, ModelError
from headgate.first_use import dataclass
from headgate.models import find_endpoint, split_model

USUAL = "default"
_SECONDS = 3.0
_MOST_LISTED = 50


@dataclass
class ModelMenu:
    """What was listed last, which a number or a name can choose."""

    offered: list[str] = field(default_factory=list)
    """As `/model` takes them, in the order in which they were listed."""
    served: frozenset[str] = frozenset()
    """Those that only the server in use has."""
    base_url: str | None = None
    """Where that server is, as the settings have it."""

    async def lines(self, config: Config, usual: Config) -> list[str]:
        """Asks the server and lists everything; `usual` is the configuration without the person's choice."""
        in_use = config.model_settings() if config.model else None
        configured = {USUAL: usual.model_settings().model} if usual.model else {}
        configured |= {name: one.model for name, one in usual.models.items()}
        self.offered = list(configured)
        lines = [f"The model is {config.model}." if in_use else "No model is set."]
        lines += [self._line(name, f"{name}  ({model})", model, in_use) for name, model in configured.items()]
        if in_use and not in_use.model.startswith("script:"):
            address = show_address(find_endpoint(in_use).root)
            found = await _ask(in_use)
            self.offered += found
            self.served, self.base_url = frozenset(found), in_use.base_url
            lines.append(f"The server at {address} {'has:' if found else 'did not list its models.'}")
            lines += [self._line(spec, spec, spec, in_use) for spec in found[:_MOST_LISTED]]
            if len(found) > _MOST_LISTED:
                lines.append(f"  ... and {len(found) - _MOST_LISTED} more.")
        return [*lines, "/model NUMBER or /model NAME chooses what the next tasks use."]

    def check(self, choice: str, settings: ModelSettings) -> None:
        """ConfigError if these settings lead a model of the server to another server."""
        if choice in self.served and settings.base_url != self.base_url:
            raise ConfigError(
                f"{choice} is on the server of another entry of `models`: add an entry for it there,"
                " with the same `base_url`."
            )

    def _line(self, choice: str, shown: str, model: str, in_use: ModelSettings | None) -> str:
        mark = "*" if in_use and in_use.model == model else " "
        return f"{mark} {self.offered.index(choice) + 1:2}  {printable(shown)}"

    def find(self, given: str) -> str:
        """What a number, or a name without its provider, stands for; else what was given."""
        if given.isdecimal() and 0 < int(given) <= len(self.offered):
            return self.offered[int(given) - 1]
        if given in self.offered:
            return given
        return next((spec for spec in self.offered if spec.partition("/")[2] == given), given)


async def _ask(settings: ModelSettings) -> list[str]:
    """The models of a server, as `model:` has them; none where it does not tell."""
    from headgate.models.network import list_models  # takes long to import

    try:
        async with asyncio.timeout(_SECONDS):
            names = await list_models(settings)
    except (ModelError, TimeoutError):
        return []
    provider = split_model(settings.model)[0]
    return [f"{provider}/{name}" for name in dict.fromkeys(names or ())]
