"""The one table of names: what flow files and agent.yaml call a field of a stage, and where it belongs."""

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
    "max_retries": ("budget", "retries"),
    "on_max_retries": ("budget", "exhausted"),
    "retry_backoff": ("budget", "retry_backoff"),
}
"""Each flat name of a stage, and the knob and field that it stands for."""
FOR_ALL_STAGES: dict[str, tuple[str, str]] = {
    **{f"flow_{name}": place for name, place in FLAT_NAMES.items() if place[0] == "view"},
    **{name: FLAT_NAMES[name] for name in ("history_strip_thinking", "tools_allow", "tools_block")},
    **{name: FLAT_NAMES[name] for name in FLAT_NAMES if name.startswith("history_tool_")},
    "flow_stage_retries": FLAT_NAMES["stage_retries"],
    "flow_stage_required": ("", "required"),
    "flow_retry_hints": ("", "retry_hints"),
    "task_status_standalone": ("budget", "standalone_status"),
    "loop_identical_calls": ("budget", "identical_calls"),
    "loop_reads": ("budget", "idle_reads"),
    "loop_thoughts": ("budget", "idle_thoughts"),
    "loop_patience": ("budget", "loop_patience"),
}
"""What agent.yaml says for all stages. A field without a knob is the stage's own; of two names for one field,
the first one takes precedence."""
ON_ERROR = "on_error"
"""The one short name that stands for more than one field."""
ERROR_NAMES = (ON_ERROR, "max_retries", "on_max_retries", "retry_backoff")
"""What a flow may say for all its stages."""
RETRIES_ON_ERROR = 3
"""The retries that `on_error: retry` means where nothing else is said."""
_ON_ERROR: dict[str, dict[str, Any]] = {
    "retry": {},
    "skip": {"max_retries": 0, "on_max_retries": "skip"},
    "fail": {"max_retries": 0, "on_max_retries": "fail"},
}
_GIVING_UP = ("skip", "fail")


def spell_out_on_error(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stage or a flow as written, with `on_error` replaced by what it stands for.

    ValueError if a name has a value that it cannot have, or no effect.
    """
    gives_up = value.get("on_max_retries", "fail")
    if gives_up not in _GIVING_UP:
        raise ValueError("`on_max_retries` must be skip or fail")
    if ON_ERROR not in value:
        return value
    wanted = value[ON_ERROR]
    if not isinstance(wanted, str) or wanted not in _ON_ERROR:
        raise ValueError("`on_error` must be retry, skip or fail")
    for name in _ON_ERROR[wanted]:
        if name in value:
            raise ValueError(f"`{name}` has no effect with `on_error: {wanted}`: leave it out")
    rest = {key: item for key, item in value.items() if key != ON_ERROR} | _ON_ERROR[wanted]
    budget = rest.get("budget", {})
    said = "max_retries" in rest or "stage_retries" in rest or "retries" in budget
    return rest if said or wanted != "retry" else {**rest, "max_retries": RETRIES_ON_ERROR}


def nest_flat_names(value: Any) -> Any:
    """A stage as written, with flat names put where they belong. ValueError if something is said twice."""
    if not isinstance(value, Mapping):
        return value
    value = spell_out_on_error(value)
    nested = {key: item for key, item in value.items() if key not in FLAT_NAMES}
    for name, (knob, field) in FLAT_NAMES.items():
        if name not in value:
            continue
        inner = checks_from_list(nested.get(knob, {}))
        if not isinstance(inner, Mapping):
            return value  # what is wrong with it is said where the knob itself is read
        if field in inner:
            raise ValueError(f"`{name}` and `{knob}: {{{field}}}` are the same: keep one of them")
        nested[knob] = {**inner, field: value[name]}
    return nested


def checks_from_list(value: Any) -> Any:
    """Accepts `[verify, {files_read: 2}]` for `{verify: true, files_read: 2}`.

    A flow has each check by its name, with its argument; `true` for a count means 1.
    """
    if not isinstance(value, list | tuple):
        return value
    merged: dict[str, Any] = {}
    for item in value:
        if isinstance(item, str):
            merged[item] = True
        elif isinstance(item, Mapping):
            merged.update(item)
        else:
            return value
    return merged
