"""The output of a stage: whether its schema, its type and the program's own function accept it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import fastjsonschema
from pydantic import TypeAdapter, ValidationError

from headgate.core import COMPLETE_TOOL, DONE_TOOL, DRIVEN, Note, Stage
from headgate.run.job import Job
from headgate.run.program_code import ProgramFailed, call_program
from headgate.tools import describe_invalid

MOST_CHARS = 200_000
"""The longest output, as JSON. The log keeps it for good."""


async def find_output_fault(job: Job, stage: Stage, note: Note) -> str:
    """Why the output of a stage is not accepted, for the model; empty if it is, or if none is needed."""
    if stage.output_schema is None and not stage.accept:
        return ""
    signal, name = (COMPLETE_TOOL, "result") if stage.kind == DRIVEN else (DONE_TOOL, "output")
    if stage.output_schema is not None and note.output is None:
        return f"{signal} needs `{name}`, the result of the stage."
    if len(json.dumps(note.output, ensure_ascii=False, default=str)) > MOST_CHARS:
        return f"`{name}` is longer than {MOST_CHARS:,} characters."
    try:
        value = read_output(stage, note.output, job.code)
    except ValidationError as error:
        return f"`{name}` does not fit its schema: {describe_invalid(error)}."
    except fastjsonschema.JsonSchemaValueException as error:
        return f"`{name}` does not fit its schema: {error.message.replace('data', name, 1)}."
    return await _ask(job.code[stage.accept], value, name) if stage.accept else ""


def read_output(stage: Stage, output: Any, code: Mapping[str, Any]) -> Any:
    """The output as the program gets it: an object of its own type, or plain data that fits the schema."""
    if stage.output_type:
        return TypeAdapter(code[stage.output_type]).validate_python(output)
    if stage.output_schema is not None:
        fastjsonschema.compile(stage.output_schema, use_default=False)(output)
    return output


def find_schema_fault(schema: Mapping[str, Any]) -> str:
    """Why something cannot be the schema of an output; empty if it can."""
    if not schema:
        return "output_schema is empty, so that every output would fit it"
    try:
        fastjsonschema.compile(dict(schema), use_default=False)
    except (fastjsonschema.JsonSchemaException, TypeError, KeyError, ValueError, AttributeError) as error:
        return f"output_schema is no JSON Schema: {error}"
    return ""


async def _ask(accept: Callable[..., Any], value: Any, name: str) -> str:
    """What the program's own function says: false or a text refuses, and so does an exception."""
    try:
        answer = await call_program(accept, value)
    except ProgramFailed as error:
        return f"`{name}` was not accepted: {error}."
    if isinstance(answer, str):
        return answer
    return "" if answer is None or answer else f"`{name}` was not accepted."
