"""Flat names for a stage's knobs, such as `tools_allow` for `tools: {allow: ...}`."""

from collections.abc import Mapping
from typing import Any

FLAT_NAMES: dict[str, tuple[str, str]] = {
    "tools_allow": ("tools", "allow"),
    "tools_block": ("tools", "block"),
    "history_mode": ("view", "history"),
    "history_max_messages": ("view", "max_messages"),
    "history_keep_first": ("view", "keep_first"),
    "history_strip_thinking": ("view", "strip_thinking"),
    "history_tool_truncate_chars": ("view", "truncate_chars"),
    "history_tool_truncate_keep_last": ("view", "truncate_keep_last"),
    "context_window": ("view", "notes_window"),
    "require_non_flow_tool": ("checks", "tool_calls"),
    "require_files_read": ("checks", "files_read"),
    "stage_retries": ("budget", "retries"),
}
"""Each flat name, and the knob and field that it stands for."""


def nest_flat_names(value: Any) -> Any:
    """A stage as written, with flat names put where they belong. ValueError if something is said twice."""
    if not isinstance(value, Mapping):
        return value
    nested = {key: item for key, item in value.items() if key not in FLAT_NAMES}
    for name, (knob, field) in FLAT_NAMES.items():
        if name not in value:
            continue
        inner = nested.get(knob, {})
        if isinstance(inner, list | tuple):
            inner = _from_list(inner)
        if not isinstance(inner, Mapping):
            return value  # what is wrong with it is said where the knob itself is read
        if field in inner:
            raise ValueError(f"`{name}` and `{knob}: {{{field}}}` are the same: keep one of them")
        nested[knob] = {**inner, field: value[name]}
    return nested


def _from_list(items: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """`[plan_written, {files_read: 2}]` as one mapping."""
    merged: dict[str, Any] = {}
    for item in items:
        merged.update(item if isinstance(item, Mapping) else {str(item): True})
    return merged
