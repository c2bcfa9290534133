"""Durations written for people, such as `1h 15m`."""

import re

SECONDS_OF = {"h": 3600, "m": 60, "s": 1}


def format_duration(seconds: int) -> str:
    """Return a duration in hours, minutes and seconds; parts that are zero are left out."""
    if seconds < 0:
        raise ValueError("a duration is not negative")
    hours = seconds // 3600
    minutes = seconds % 3600 // 60
    rest = seconds % 60
    parts = []
    if hours:
        parts.append(f"{hours}h")
    if minutes:
        parts.append(f"{minutes}m")
    if rest or not parts:
        parts.append(f"{rest}s")
    return " ".join(parts)


def parse_duration(text: str) -> int:
    """Return the seconds of a duration such as `1h 15m`."""
    total = 0
    for part in text.split():
        match = re.fullmatch(r"(\d+)([hms])", part)
        if match is None:
            raise ValueError(f"not a duration: {text}")
        total += int(match.group(1)) * SECONDS_OF[match.group(2)]
    return total
