"""Steps of a plan that only read: exploring has a stage of its own."""

import re
from collections.abc import Iterable

from headgate.core.events import PlanItem

READ_ONLY = "it only reads"
_READING = re.compile(
    r"\b(read|inspect|review|look|explore|analy[sz]e|understand|find|locate|examine|identify|study|investigate"
    r"|check|open|view|search|list|determine|browse|verify|confirm|run)\b",
    re.IGNORECASE,
)
_CHANGING = re.compile(
    r"\b(add|chang\w*|fix\w*|writ\w*|updat\w*|implement\w*|creat\w*|remov\w*|renam\w*|refactor\w*|edit\w*|delet\w*"
    r"|replac\w*|mov\w*|insert\w*|modif\w*|correct\w*|mak\w*|set|introduc\w*|extend\w*|convert\w*|handl\w*"
    r"|adjust\w*|rewrit\w*|drop|rais\w*|return\w*|support\w*|us\w*|bump|install\w*|document\w*|patch\w*)\b",
    re.IGNORECASE,
)


def only_reads(item: PlanItem) -> bool:
    """Whether a step says that it looks at something and nothing about changing anything."""
    return bool(_READING.search(item.description)) and not _CHANGING.search(item.description)


def skip_reading(items: Iterable[PlanItem]) -> list[PlanItem]:
    """The plan with the pending steps that only read marked as skipped."""
    return [
        item.model_copy(update={"status": "skipped", "reason": READ_ONLY})
        if item.status == "pending" and only_reads(item)
        else item
        for item in items
    ]
