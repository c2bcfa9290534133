"""Steps of a plan that only read, as the plan itself says: exploring has a stage of its own."""

from collections.abc import Sequence

from headgate.core.events import PlanItem

READ_ONLY = "it only reads"


def skip_reading(items: Sequence[PlanItem]) -> list[PlanItem]:
    """The plan with the pending steps marked as skipped that change no file.

    A plan in which no step changes anything is carried out as it is: otherwise nothing would be done.
    """
    if not any(item.writes for item in items):
        return list(items)
    return [
        item.model_copy(update={"status": "skipped", "reason": READ_ONLY})
        if item.status == "pending" and not item.writes
        else item
        for item in items
    ]
