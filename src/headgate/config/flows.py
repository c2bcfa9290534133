"""Reading flows, built in or in a file, and writing them: what they name is checked."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, Field, ValidationError, create_model

from headgate.config.stage_forms import FLOW_SUFFIXES, read_stages
from headgate.config.yaml_files import Document, Place, explain, parse_yaml, read_yaml
from headgate.core import (
    VERIFY_CHECK,
    CheckSpec,
    Data,
    Flow,
    Stage,
    ToolSpec,
    flow_as_written,
    flow_problems,
    nearest,
    unknown_name,
)
from headgate.errors import ConfigError


class FlowNames(NamedTuple):
    """What a flow may name; None lets any name pass."""

    tools: Sequence[ToolSpec] | None = None
    checks: Sequence[CheckSpec] | None = None
    kinds: Mapping[str, type[BaseModel]] | None = None
    """The kinds of stages, each with the type of its settings."""


ANY_NAMES = FlowNames()


@cache
def builtin_flows() -> Mapping[str, Traversable]:
    """The flows that ship with Headgate, by name."""
    folder = resources.files("headgate.config") / "flows"
    files = [item for item in folder.iterdir() if item.name.endswith(".yaml")]
    return {item.name.removesuffix(".yaml"): item for item in sorted(files, key=lambda item: item.name)}


def load_flow(name_or_file: str, repo: Path, known: FlowNames = ANY_NAMES, *, whole: bool = True) -> Flow:
    """A built-in flow by name, or one in a file; a relative path starts at the repository.

    What stages name must be among `known`. A part of a flow is not `whole`.
    """
    builtin = builtin_flows()
    if name_or_file in builtin:
        text = builtin[name_or_file].read_text("utf-8")
        document = parse_yaml(text, f"The built-in flow {name_or_file}")
        return _read_flow(document, name_or_file, known, whole)
    path = repo / name_or_file
    if "/" in name_or_file or name_or_file.endswith(FLOW_SUFFIXES):
        if not path.exists():
            raise ConfigError(f"There is no flow file {name_or_file}.")
        document = read_yaml(path, name_or_file)
        return _read_flow(document, PurePosixPath(name_or_file).stem, known, whole)
    close = nearest(name_or_file, builtin)
    hint = f': did you mean "{close}"?' if close else "."
    raise ConfigError(
        f'There is no flow "{name_or_file}"{hint} The built-in flows are {", ".join(builtin) or "none"}; '
        "to use your own flow, name its .yaml file."
    )


class _FlowDumper(yaml.SafeDumper):
    """Writes prompts as blocks, short lists and mappings on one line, and nothing as a reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_FlowDumper.add_representer(str, _represent_text)


def write_flow(flow: Flow) -> str:
    """The text of a flow file with this flow."""
    return yaml.dump(
        flow_as_written(flow),
        Dumper=_FlowDumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=110,
    )


def _read_flow(document: Document, name: str, known: FlowNames, whole: bool) -> Flow:
    data = {"name": name, **document.data}
    if "stages" in data:
        data["stages"] = read_stages(data["stages"])
    try:
        flow = Flow.model_validate(data)
    except ValidationError as error:
        raise explain(error, Document(document.name, data, document.lines), Flow) from None
    return check_flow(flow, document, known, whole)


def check_flow(flow: Flow, document: Document, known: FlowNames, whole: bool = True) -> Flow:
    """The flow with the arguments of its checks read. ConfigError if something of it is wrong."""
    if known.kinds is not None:
        _check_kinds(flow.stages, document, known.kinds, ("stages",))
    if known.checks is not None:
        flow = with_check_arguments(flow, known.checks, document)
    problem = next(flow_problems(flow, known.tools, known.checks or (), whole=whole), None)
    if problem is not None:
        raise document.error(problem.where, problem.message)
    return flow


def _check_kinds(
    stages: Sequence[Stage], document: Document, kinds: Mapping[str, type[BaseModel]], where: Place
) -> None:
    """ConfigError for a stage of a kind that does not exist, or with settings that its kind does not have."""
    for index, stage in enumerate(stages):
        here: Place = (*where, index)
        if stage.kind not in kinds:
            raise document.error((*here, "kind"), unknown_name("kind", stage.kind, kinds))
        try:
            kinds[stage.kind].model_validate(stage.settings)
        except ValidationError as error:
            raise explain(error, document, kinds[stage.kind], (*here, stage.kind)) from None
        _check_kinds(stage.stages, document, kinds, (*here, "stages"))


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
        "checks": _read_checks(flow.checks, checks, document, ("checks",)),
    }
    return flow.model_copy(update=changed)


def read_stage_checks(stage: Stage, checks: Sequence[CheckSpec], document: Document, where: Place) -> Stage:
    """The same for one stage, and for those in it. `where` is its place in the document."""
    update: dict[str, Any] = {}
    if stage.checks:
        update["checks"] = _read_checks(stage.checks, checks, document, (*where, "checks"))
    if stage.stages:
        update["stages"] = tuple(
            read_stage_checks(inner, checks, document, (*where, "stages", index))
            for index, inner in enumerate(stage.stages)
        )
    return stage.model_copy(update=update) if update else stage


def require_checks(flow: Flow, checks: Sequence[CheckSpec]) -> None:
    """ConfigError if a flow that another process has read names a check that is not known here."""
    with_check_arguments(flow, checks, Document(f"The flow {flow.name}", {}))


def _read_checks(
    written: Mapping[str, Any], checks: Sequence[CheckSpec], document: Document, where: Place
) -> dict[str, Any]:
    model = _model_of_checks(tuple(checks))
    try:
        return {name: value for name, value in model.model_validate(written) if value}
    except ValidationError as error:
        raise explain(error, document, model, where) from None


@cache
def _model_of_checks(checks: tuple[CheckSpec, ...]) -> type[BaseModel]:
    """A model with one field for each check: it says what is wrong as the rest of the schema does."""
    fields: dict[str, Any] = {
        spec.name: (int, Field(0, ge=0)) if spec.argument == "count" else (bool, False)
        for spec in (*checks, VERIFY_CHECK)
    }
    return create_model("Checks", __base__=Data, **fields)
