"""What a run needs, made from plain fields, for tests that drive the loop without an engine."""

from dataclasses import fields, replace
from typing import Any

from headgate.engine import FEATURES, KINDS
from headgate.features.compaction.feature import ON_REQUEST
from headgate.run import Clock, Job, Models, Parts, People, Pinned, Place

_GROUPS = {
    "parts": Parts,
    "models": Models,
    "place": Place,
    "people": People,
    "clock": Clock,
    "pinned": Pinned,
}
_NAMES = {"models": "clients", "model_settings": "settings"}


def job_of(**given: Any) -> Job:
    """A job from the fields of all its parts, by their names."""
    given = {_NAMES.get(name, name): value for name, value in given.items()}
    given.setdefault("kinds", KINDS)
    given.setdefault("features", [*(each for each in FEATURES if not each.observers), ON_REQUEST])
    made: dict[str, Any] = {}
    for name, group in _GROUPS.items():
        made[name] = group(**{one.name: given.pop(one.name) for one in fields(group) if one.name in given})
    return Job(**made, **given)


def other_job(job: Job, **changed: Any) -> Job:
    """The same job with other fields in its parts."""
    changed = {_NAMES.get(name, name): value for name, value in changed.items()}
    for name, group in _GROUPS.items():
        own = {one.name: changed.pop(one.name) for one in fields(group) if one.name in changed}
        job = replace(job, **{name: replace(getattr(job, name), **own)})
    return replace(job, **changed)
