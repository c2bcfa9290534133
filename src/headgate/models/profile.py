"""What is known about families of models, from the data files in `profiles/`."""

import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal
from urllib.parse import urlsplit

import yaml
from pydantic import Field, field_validator

from headgate.core import ModelSettings, Price, Settings
from headgate.errors import ConfigError
from headgate.models.endpoint import find_endpoint, split_model
from headgate.models.textcalls import NAMES

Transport = Literal["native", "text", "schema"]


class Profile(Settings):
    """A family of models: what can be said of it before it was asked anything."""

    name: str
    """How the family is called, for people."""
    match: str = ""
    """A regular expression that is looked for in the model's name, in lower case."""
    host: str = ""
    """The one host where this is so: others serve anything under such a name, and at any price."""
    price: Price | None = None
    """What a million tokens cost there, in US dollars; absent for what runs on one's own machine."""
    images: bool = False
    """Whether it can be shown images there."""
    context_window: int | None = Field(None, gt=0)
    """The largest one; servers are often started with less, and are asked first."""
    transports: tuple[Transport, ...] = ("native", "text", "schema")
    """Those that work at all."""
    temperature: float | None = Field(None, ge=0)
    """What its makers advise."""
    top_p: float | None = Field(None, gt=0, le=1)
    """What its makers advise."""
    calls: str | None = None
    """The form in which it writes calls as text, by its name in docs/tool-calls.md."""
    one_call: bool = False
    """It manages one call in a reply; more are not taken."""
    needs_reasoning_back: bool = False
    """It gets worse if what it thought in the current exchange is not sent back to it."""
    opens_thinking: bool = False
    """Its prompt ends inside the thinking, so that a reply has only the closing mark."""

    @field_validator("calls")
    @classmethod
    def _is_known(cls, calls: str | None) -> str | None:
        if calls is not None and calls not in NAMES:
            raise ValueError(f'there is no form "{calls}"')
        return calls

    @field_validator("match")
    @classmethod
    def _is_pattern(cls, match: str) -> str:
        try:
            re.compile(match)
        except re.error as error:
            raise ValueError(f"it is not a regular expression: {error}") from error
        return match


UNKNOWN = Profile(name="unknown")
_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one written in Python takes a hundred times as long, a quarter of a second for all profiles."""


@cache
def load_profiles() -> tuple[Profile, ...]:
    """Every profile, as the data files have them."""
    folder = files("headgate.models") / "profiles"
    found: list[Profile] = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            entries = yaml.load(file.read_text("utf-8"), Loader=_LOADER)
            found += [Profile.model_validate(entry) for entry in entries]
    return tuple(found)


def profile_for(settings: ModelSettings) -> Profile:
    """The profile for a model where it is served."""
    provider, name = split_model(settings.model)
    if provider == "script":
        return UNKNOWN
    return find_profile(name, urlsplit(find_endpoint(settings).root).hostname or "")


@lru_cache(maxsize=64)
def find_profile(model: str, host: str = "") -> Profile:
    """The profile for a model's name, such as `qwen/qwen3-coder:30b` or `Qwen3-Coder-30B-Q4_K_M.gguf`.

    A name may hold that of another family (`deepseek-r1-distill-qwen`): the one that comes first counts, and
    of two that begin there the one that says more.
    """
    # Owners come before a slash and may be called like a family whose model this is not.
    name = model.lower().rstrip("/").rpartition("/")[2]
    profiles = [profile for profile in load_profiles() if profile.host == host]
    profiles = profiles or [profile for profile in load_profiles() if not profile.host]
    found = [(match, profile) for profile in profiles if (match := re.search(profile.match, name))]
    if not found:
        return UNKNOWN
    return min(found, key=lambda pair: (pair[0].start(), -len(pair[0][0])))[1]


def with_profile(settings: ModelSettings, profile: Profile, window: int | None = None) -> ModelSettings:
    """The settings with what the user left open filled in; `window` is what the server said of itself."""
    advised = {
        "context_window": window or profile.context_window,
        "temperature": profile.temperature,
        "top_p": profile.top_p,
    }
    update = {name: value for name, value in advised.items() if value is not None}
    return settings.model_copy(
        update={name: value for name, value in update.items() if getattr(settings, name) is None}
    )


def with_price(settings: ModelSettings, profile: Profile) -> ModelSettings:
    """The settings with the list price, where the user set none, not even nothing."""
    if profile.price is None or "price" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"price": profile.price})


def sees_images(settings: ModelSettings) -> bool:
    """Whether a model can be shown images: as the user says, else as its profile says."""
    if settings.images is not None:
        return settings.images
    try:
        return profile_for(settings).images
    except ConfigError:  # a program's own model, whose name says nothing
        return False
