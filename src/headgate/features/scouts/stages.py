"""The stages that find out about a task before its first stage: what `scouts` in a flow file stands for."""

from typing import Any

from headgate.config import ScoutSettings, prompt
from headgate.core import SCOUTS, Budget, Flow, Stage, ToolScope, all_stages, free_id

TRIES = 3
_SENTENCES = {"type": "array", "items": {"type": "string", "maxLength": 300}, "maxItems": 8}
_PLACE = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 200},
        "why": {"type": "string", "maxLength": 300},
    },
    "required": ["path", "why"],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "code": {
        "type": "object",
        "properties": {
            "relevant_files": {"type": "array", "items": _PLACE, "maxItems": 8},
            "entry_points": _SENTENCES,
            "conventions": _SENTENCES,
            "prior_art": _SENTENCES,
        },
        "required": ["relevant_files"],
    },
    "build": {
        "type": "object",
        "properties": {
            "build_system": {"type": "string", "maxLength": 200},
            "test_commands": _SENTENCES,
            "problems": _SENTENCES,
        },
        "required": ["build_system", "test_commands"],
    },
}
"""What a model that scouts has to answer."""


def with_scouts(flow: Flow, settings: ScoutSettings) -> Flow:
    """A flow with stages in place of `scouts`. A scout that is off has none."""
    wanted = [name for name in flow.scouts if settings.mode(name) != "off"]
    plain = flow.model_copy(update={"scouts": ()})
    if not wanted:
        return plain
    ids = {stage.id for stage in all_stages(flow.stages)}
    facts = [
        Stage(
            id=free_id(f"scout_{name}", ids),
            label=SCOUTS[name],
            kind="scout",
            required=False,
            settings={"scout": name, "tokens": settings.tokens},
        )
        for name in wanted
    ]
    # A model reads after both: they end in any order, and what it is told must not depend on that.
    needs = tuple(stage.id for stage in facts)
    reading = [
        _reading(name, needs, free_id(f"scout_{name}_model", ids), settings)
        for name in wanted
        if settings.mode(name) == "llm"
    ]
    group = Stage(
        id=free_id("scouts", ids),
        stages=(*facts, *reading),
        required=False,
        priority="critical",
        max_parallel=len(wanted),
        when="no_suspects" if flow.begin == "verify" else None,
    )
    return plain.model_copy(update={"stages": (group, *flow.stages)})


def _reading(name: str, needs: tuple[str, ...], stage_id: str, settings: ScoutSettings) -> Stage:
    """A model that may only read, in a conversation of its own, and whose answer has a schema."""
    return Stage(
        id=stage_id,
        label=SCOUTS[name],
        needs=needs,
        on_skip="run",
        required=False,
        prompt=prompt(f"scout_{name}"),
        model=settings.model,
        tools=ToolScope(allow=("read",), block=("ask_scout",)),
        output_schema=ANSWERS[name],
        budget=Budget(
            turns=10,
            bad_replies=1,
            idle_attempts=0,
            retries=TRIES,
            retry_backoff="exponential",
            total_seconds=settings.seconds,
            exhausted="skip",
        ),
    )
