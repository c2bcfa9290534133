"""Three-way merge of flat settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ABSENT = object()


@dataclass
class Merge:
    """The merged settings and the keys on which the two sides disagree."""

    settings: dict[str, Any] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)


def merge(base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Merge:
    """Merge the changes that two sides made to `base`.

    A change is a new, another or a deleted value. When both sides changed a key in different
    ways the key is a conflict and our side is kept.
    """
    merged = Merge()
    for key in sorted({*base, *ours, *theirs}):
        before = base.get(key, ABSENT)
        mine = ours.get(key, ABSENT)
        other = theirs.get(key, ABSENT)
        if mine == other or other == before:
            value = mine
        elif mine == before:
            value = other
        else:
            merged.conflicts.append(key)
            value = mine
        if value is not ABSENT:
            merged.settings[key] = value
    return merged


def describe(merged: Merge) -> str:
    """Return one sentence about a merge."""
    count = len(merged.conflicts)
    if not count:
        return f"{len(merged.settings)} settings merged"
    return f"{len(merged.settings)} settings merged, in conflict: {', '.join(merged.conflicts)}"
