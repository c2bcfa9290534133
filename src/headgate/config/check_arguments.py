"""The checks of a flow file: whether their names are known, and whether their arguments fit."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, Field, ValidationError, create_model

from headgate.config.yaml_files import Document, Place, explain
from headgate.core import VERIFY_CHECK, CheckSpec, Data, Flow, Stage


def with_check_arguments(flow: Flow, checks: Sequence[CheckSpec], document: Document) -> Flow:
    """The flow with the arguments of its checks read, and without checks that are switched off.

    ConfigError if there is no such check, or if an argument does not fit.
    """
    stages = [
        read_stage_checks(stage, checks, document, ("stages", index))
        for index, stage in enumerate(flow.stages)
    ]
    changed = {
        "stages": tuple(stages),
        "replan": read_stage_checks(flow.replan, checks, document, ("replan",)),
        "checks": _read(flow.checks, checks, document, ("checks",)),
    }
    return flow.model_copy(update=changed)


def read_stage_checks(stage: Stage, checks: Sequence[CheckSpec], document: Document, where: Place) -> Stage:
    """The same for one stage, and for those in it. `where` is its place in the document."""
    update: dict[str, Any] = {}
    if stage.checks:
        update["checks"] = _read(stage.checks, checks, document, (*where, "checks"))
    if stage.stages:
        update["stages"] = tuple(
            read_stage_checks(inner, checks, document, (*where, "stages", index))
            for index, inner in enumerate(stage.stages)
        )
    return stage.model_copy(update=update) if update else stage


def require_checks(flow: Flow, checks: Sequence[CheckSpec]) -> None:
    """ConfigError if a flow that another process has read names a check that is not known here."""
    with_check_arguments(flow, checks, Document(f"The flow {flow.name}", {}))


def _read(
    written: Mapping[str, Any], checks: Sequence[CheckSpec], document: Document, where: Place
) -> dict[str, Any]:
    model = _model_of(tuple(checks))
    try:
        return {name: value for name, value in model.model_validate(written) if value}
    except ValidationError as error:
        raise explain(error, document, model, where) from None


@cache
def _model_of(checks: tuple[CheckSpec, ...]) -> type[BaseModel]:
    """A model with one field for each check: it says what is wrong as the rest of the schema does."""
    fields: dict[str, Any] = {spec.name: _field(spec) for spec in (*checks, VERIFY_CHECK)}
    return create_model("Checks", __base__=Data, **fields)


def _field(spec: CheckSpec) -> Any:
    return (int, Field(0, ge=0)) if spec.argument == "count" else (bool, False)
