"""Whether a task's report is one: what scripts rely on is there, has its type, and adds up."""

from collections.abc import Mapping
from typing import Any

REQUIRED: dict[str, type | tuple[type, ...]] = {
    "task_id": str,
    "description": str,
    "status": str,
    "attempts": int,
    "replan_max": int,
    "files_changed": (list, tuple),
    "files_read": (list, tuple),
    "plan_steps": (list, tuple),
    "tool_calls_total": int,
    "tool_errors_total": int,
    "tool_call_counts": dict,
    "tool_error_counts": dict,
    "analysis_retries": int,
    "feedback_counts": dict,
}
ENDED = ("completed", "failed", "cancelled")
ERROR_CHARS = 2_000


def report_problems(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Codes of what is wrong, such as `missing:task_id`; nothing for a report as it should be."""
    found = [f"missing:{name}" for name in REQUIRED if name not in report]
    there = [name for name in REQUIRED if name in report]
    found += [f"type:{name}" for name in there if not _is(report[name], REQUIRED[name])]
    if found:
        return tuple(found)
    if not report["task_id"] or not report["description"]:
        found.append("empty:task")
    if report["status"] not in ENDED:
        found.append("status:not_ended")
    error = report.get("error")
    if (report["status"] == "failed") != bool(error):
        found.append("error:unexpected" if error else "error:missing")
    if error and len(error) > ERROR_CHARS:
        found.append("error:too_long")
    for kind in ("call", "error"):
        counts = report[f"tool_{kind}_counts"]
        if sum(counts.values()) != report[f"tool_{kind}s_total"]:
            found.append(f"sum:tool_{kind}s_total")
    numbers = ("attempts", "replan_max", "analysis_retries", "tool_calls_total", "tool_errors_total")
    found += [f"negative:{name}" for name in numbers if report[name] < 0]
    if report["tool_errors_total"] > report["tool_calls_total"]:
        found.append("sum:more_errors_than_calls")
    return tuple(found)


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is int)
