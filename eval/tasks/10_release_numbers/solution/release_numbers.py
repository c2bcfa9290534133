"""Comparison of release numbers such as 1.10.2."""

from collections.abc import Iterable

Release = tuple[int, int, int]


def parse_release(text: str) -> Release:
    """Return the three numbers of a release; a leading `v` is allowed."""
    parts = text.strip().removeprefix("v").split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(f"not a release number: {text}")
    return tuple(int(part) for part in parts)


def newest(releases: Iterable[str]) -> str:
    """Return the newest of some releases, as it was written."""
    return max(releases, key=parse_release)


def is_compatible(installed: str, wanted: str) -> bool:
    """Tell whether `installed` is at least `wanted` and has the same first number."""
    have, need = parse_release(installed), parse_release(wanted)
    return have[0] == need[0] and have >= need


def updates(installed: str, available: Iterable[str]) -> list[str]:
    """Return the compatible releases newer than `installed`, oldest first."""
    newer = [
        release
        for release in available
        if is_compatible(release, installed) and parse_release(release) != parse_release(installed)
    ]
    return sorted(newer, key=parse_release)
