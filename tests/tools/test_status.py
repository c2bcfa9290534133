"""The status report: what the model is told about it, and what it may write."""

import pytest

from headgate.tools import status_tool
from headgate.tools.control import PlanStep, StageDone, TaskStatus

FIELDS = {
    "done": "a",
    "pending": "b",
    "now": "c",
    "ready_for_final_report": False,
    "need_to_run_more_tools": True,
}


def test_the_description_says_the_rules() -> None:
    assert status_tool(2).spec.description == (
        "Report your status with other calls, up to 15 words per field."
        " The work ends if you call it alone twice, or report completed, ready and no more tools."
    )
    assert " call it alone 5 times, or report completed," in status_tool(5).spec.description


def test_every_field_is_described() -> None:
    properties = status_tool().spec.parameters["properties"]
    assert list(properties) == ["status", *FIELDS]
    assert all(field.get("description") for field in properties.values())
    assert properties["status"]["enum"] == ["starting", "in-progress", "completed"]


@pytest.mark.parametrize("written", ["in-progress", "in_progress", "In Progress", "IN-PROGRESS"])
def test_in_progress_is_known_by_its_spellings(written: str) -> None:
    assert TaskStatus.model_validate({"status": written, **FIELDS}).status == "in-progress"
    assert PlanStep.model_validate({"id": "1", "status": written}).status == "in_progress"


def test_one_sentence_is_a_list_of_one() -> None:
    assert StageDone.model_validate({"summary": "s", "decisions": "d"}).decisions == ("d",)
