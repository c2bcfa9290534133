"""When the messages of an ended stage are replaced by a summary, and who writes it: data, and one rule."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from headgate.core.settings import Data

Trigger = Literal["on_complete", "on_threshold", "batch", "manual"]
Strategy = Literal["aggressive", "moderate", "comprehensive"]
Preserved = Literal["outputs", "decisions", "errors"]

_TEXTS = {"type": "array", "items": {"type": "string"}}
SUMMARY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "key_outputs": _TEXTS,
        "decisions": _TEXTS,
        "errors": _TEXTS,
    },
    "required": ["summary", "key_outputs", "decisions", "errors"],
    "additionalProperties": False,
}
"""What a model that writes summaries answers, unless the flow says otherwise."""


class CompactionAgent(Data):
    """A model that writes the summaries, in requests of its own."""

    model: str | None = None
    """A name from `models` in agent.yaml, or a model such as `openai/qwen3-4b`; absent: the task's model."""
    system_prompt: str | None = None
    """Its system prompt; absent: a built-in one."""
    output_schema: dict[str, Any] | None = None
    """The JSON schema of its answer, an object; absent: `summary`, `key_outputs`, `decisions`, `errors`."""

    @field_validator("output_schema")
    @classmethod
    def _check_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None:
            return None
        names, required = schema.get("properties"), schema.get("required", [])
        if schema.get("type") != "object" or not isinstance(names, dict) or not names:
            raise ValueError("must be the JSON schema of an object: `type: object` with `properties`")
        if not isinstance(required, list) or any(name not in names for name in required):
            raise ValueError("`required` must be a list of names from `properties`")
        return schema

    @property
    def answer_schema(self) -> Mapping[str, Any]:
        """What its answers must look like."""
        return SUMMARY_SCHEMA if self.output_schema is None else self.output_schema


class Compaction(Data):
    """The messages of an ended stage are replaced by a summary, in conversations that stages share.

    Only what the model sees changes. The log keeps the conversation for as long as it keeps conversations.
    """

    enabled: bool = True
    """false: nothing is replaced, unless a program asks for it."""
    trigger: Trigger = "on_complete"
    """`on_complete`: when a stage ends. `on_threshold`: when a stage ends and the conversation is longer than
    `threshold`. `batch`: when `batch_size` stages have ended. `manual`: only when a program asks for it."""
    threshold: int = Field(50_000, ge=0)
    """With `on_threshold`: the characters that the conversation may have."""
    batch_size: int = Field(3, ge=1)
    """With `batch`: how many ended stages are replaced at once."""
    strategy: Strategy = "moderate"
    """`aggressive`: only whether the stage succeeded. `moderate`: what `preserve` names. `comprehensive`: the
    same, and every thought, call and result in a few words."""
    preserve: tuple[Preserved, ...] = ("outputs", "decisions", "errors")
    """What `moderate` and `comprehensive` keep: outputs (the stage's summary and the files it changed),
    decisions (also what comes next), errors (calls that failed, and risks)."""
    agent: CompactionAgent | None = None
    """Let a model write the summaries. If it fails, `strategy` is used."""


def due_stages(compaction: Compaction, waiting: Sequence[str], view_chars: int) -> tuple[str, ...]:
    """Which ended stages of a conversation to replace now, of those that wait for it.

    It is asked when a stage has ended. `view_chars`: the size of what the model sees of the conversation.
    """
    due = {
        "on_complete": True,
        "on_threshold": view_chars > compaction.threshold,
        "batch": len(waiting) >= compaction.batch_size,
        "manual": False,
    }
    return tuple(waiting) if compaction.enabled and due[compaction.trigger] else ()
