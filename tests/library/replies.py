"""What scripted models say in these tests."""

from collections.abc import Sequence
from typing import Any

from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry

Calls = Sequence[dict[str, Any]]


def script(*replies: Calls | dict[str, Any]) -> ScriptedModel:
    """A model whose replies are these calls: one each, or several."""
    entries = [{"calls": [reply] if isinstance(reply, dict) else list(reply)} for reply in replies]
    return ScriptedModel([ScriptEntry.model_validate(entry) for entry in entries])


def done(stage: str, **more: Any) -> dict[str, Any]:
    """The call that ends a stage."""
    return {"stage_done": {"stage": stage, "summary": f"{stage} is done.", **more}}
