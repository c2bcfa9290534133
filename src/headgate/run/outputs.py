"""The output of a stage: whether its schema, its type and the program's own function accept it."""

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import fastjsonschema
from pydantic import TypeAdapter, ValidationError

from headgate.core import DONE_TOOL, Note, Stage
from headgate.run.job import Job
from headgate.run.program_code import ProgramFailed, call_program
from headgate.run.stage import Conversation
from headgate.tools import describe_invalid

MOST_CHARS = 200_000
"""The longest output, as JSON. The log keeps it for good."""


async def find_output_fault(job: Job, stage: Stage, note: Note) -> str:
    """Why the output of a stage is not accepted, for the model; empty if it is, or if none is needed."""
    if stage.output_schema is None and not stage.accept:
        return ""
    kind = job.parts.kinds[stage.kind]
    signal = kind.done_tool if isinstance(kind, Conversation) else DONE_TOOL
    name = "output" if signal == DONE_TOOL else "result"
    if len(json.dumps(note.output, ensure_ascii=False, default=str)) > MOST_CHARS:
        return f"`{name}` is longer than {MOST_CHARS:,} characters"
    try:
        value = read_output(stage, note.output, job.parts.code)
    except (ValidationError, fastjsonschema.JsonSchemaValueException) as error:
        if note.output is None:
            return f"{signal} needs `{name}`, the result of the stage"
        return f"`{name}` does not fit its schema: {_describe(error, name)}"
    return await _ask(job.parts.code[stage.accept], value, name) if stage.accept else ""


def _describe(error: ValidationError | fastjsonschema.JsonSchemaValueException, name: str) -> str:
    """What is wrong with an output."""
    if isinstance(error, ValidationError):
        return describe_invalid(error)
    said: str = error.message
    return said.replace("data", name, 1)


def read_output(stage: Stage, output: Any, code: Mapping[str, Any]) -> Any:
    """The output as the program gets it: an object of its own type, or plain data that fits the schema."""
    if stage.output_type:
        # As JSON, in which a strict type takes a list for a tuple, and a text for a date.
        return TypeAdapter(code[stage.output_type]).validate_json(json.dumps(output, ensure_ascii=False))
    if stage.output_schema is not None:
        _compile(stage.output_schema)(output)
    return output


def find_schema_fault(schema: Mapping[str, Any]) -> str:
    """Why something cannot be the schema of an output; empty if it can."""
    if not schema:
        return "output_schema is empty, so that every output would fit it"
    try:
        _compile(schema)
    except (*_FAULTS, fastjsonschema.JsonSchemaException) as error:
        return f"output_schema is not a JSON Schema: {error}"
    return ""


_FAULTS = (
    TypeError,
    KeyError,
    IndexError,
    ValueError,
    AttributeError,
    SyntaxError,
    RecursionError,
    OSError,
    re.error,
)
"""What the library raises besides its own errors, such as for a pattern that cannot be read."""


def _compile(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What checks an output. The library changes the schema that it is given, so it gets one of its own."""
    check: Callable[[Any], Any] = fastjsonschema.compile(
        deepcopy(dict(schema)), handlers=dict.fromkeys(_SCHEMES, _refuse), use_default=False
    )
    return check


_SCHEMES = ("", "http", "https", "ftp", "file", "data")
"""Where the library would otherwise fetch what a schema refers to. A flow file may come with a repository."""


def _refuse(address: str) -> Any:
    raise ValueError(f"it refers to {address}, and nothing is fetched: put that under `$defs`")


async def _ask(accept: Callable[..., Any], value: Any, name: str) -> str:
    """What the program's own function says: false or a text refuses, and so does an exception."""
    try:
        answer = await call_program(accept, value)
    except ProgramFailed as error:
        return f"`{name}` was not accepted: {error}"
    if isinstance(answer, str):
        return answer.removesuffix(".")
    return "" if answer is None or answer else f"`{name}` was not accepted"
