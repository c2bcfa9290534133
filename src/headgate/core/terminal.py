"""Text that was written for a terminal, as plain text."""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127])


def plain(text: str) -> str:
    """What a terminal would show in the end: no colours, no control characters, overwritten text gone."""
    lines = _ESCAPES.sub("", text).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].translate(_CONTROLS) for line in lines)
