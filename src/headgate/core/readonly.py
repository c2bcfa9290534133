"""Steps of a plan that only read: exploring has a stage of its own. In doubt a step is carried out."""

import re
from collections.abc import Iterable

from headgate.core.events import PlanItem

READ_ONLY = "it only reads"
_CLAUSES = re.compile(r"(?:,\s*)?\band\b|[,;]")
_READING = re.compile(
    r"(?:carefully\s+)?(?:"
    r"(?:explore|inspect|review|understand|examine|study|analy[sz]e|investigate)\b[^.]*"
    r"|look\s+(?:at|through|into|over)\b[^.]*"
    r"|(?:read|open|view)\s+(?:through\s+|the\s+file\s+)?[\w./-]+\.\w+(?:\s+(?:file|carefully|first))?"
    r")\.?",
    re.IGNORECASE,
)


def only_reads(item: PlanItem) -> bool:
    """Whether every clause of a step says that it looks at something, and it has no goal of its own."""
    clauses = [clause.strip() for clause in _CLAUSES.split(item.description) if clause.strip()]
    return not item.goal and bool(clauses) and all(_READING.fullmatch(clause) for clause in clauses)


def skip_reading(items: Iterable[PlanItem]) -> list[PlanItem]:
    """The plan with the pending steps that only read marked as skipped."""
    return [
        item.model_copy(update={"status": "skipped", "reason": READ_ONLY})
        if item.status == "pending" and only_reads(item)
        else item
        for item in items
    ]
