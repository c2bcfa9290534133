"""The checks of a flow file: whether their names are known, and whether their arguments fit."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError, create_model

from headgate.config.yaml_files import Document, Place, explain
from headgate.core import VERIFY_CHECK, CheckSpec, Data, Flow, Stage


def with_check_arguments(flow: Flow, checks: Sequence[CheckSpec], document: Document) -> Flow:
    """The flow with the arguments of its checks read, and without checks that are switched off.

    ConfigError if there is no such check, or if an argument does not fit.
    """
    fields: dict[str, Any] = {spec.name: _field(spec) for spec in (*checks, VERIFY_CHECK)}
    model = create_model("Checks", __base__=Data, **fields)

    def read(written: Mapping[str, Any], where: Place) -> dict[str, Any]:
        try:
            return {name: value for name, value in model.model_validate(written) if value}
        except ValidationError as error:
            raise explain(error, document, model, where) from None

    def read_stage(stage: Stage, where: Place) -> Stage:
        update: dict[str, Any] = {}
        if stage.checks:
            update["checks"] = read(stage.checks, (*where, "checks"))
        if stage.stages:
            update["stages"] = read_stages(stage.stages, (*where, "stages"))
        return stage.model_copy(update=update) if update else stage

    def read_stages(stages: Sequence[Stage], where: Place) -> tuple[Stage, ...]:
        return tuple(read_stage(stage, (*where, index)) for index, stage in enumerate(stages))

    changed = {
        "stages": read_stages(flow.stages, ("stages",)),
        "replan": read_stage(flow.replan, ("replan",)),
        "checks": read(flow.checks, ("checks",)),
    }
    return flow.model_copy(update=changed)


def require_checks(flow: Flow, checks: Sequence[CheckSpec]) -> None:
    """ConfigError if a flow that another process has read names a check that is not known here."""
    with_check_arguments(flow, checks, Document(f"The flow {flow.name}", {}))


def _field(spec: CheckSpec) -> Any:
    return (int, Field(0, ge=0)) if spec.argument == "count" else (bool, False)
