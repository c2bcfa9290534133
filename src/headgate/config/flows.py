"""Finding and reading flows: built in, in a file, or written into agent.yaml."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

import yaml
from pydantic import BaseModel, ValidationError

from headgate.config.check_arguments import read_stage_checks, with_check_arguments
from headgate.config.knobs import FLOW_SUFFIXES, FlowFile, expand_stages, tune, with_plan_mode
from headgate.config.schema import Config
from headgate.config.yaml_files import Document, Place, explain, parse_yaml, read_yaml
from headgate.core import (
    CheckSpec,
    Flow,
    Stage,
    ToolSpec,
    flow_as_written,
    flow_problems,
    is_question,
    nearest,
    tool_problems,
    unknown_name,
    without_politeness,
)
from headgate.errors import ConfigError

# Which built-in flow suits a task, where the configuration leaves that open.


SMALL = 4.0
"""Models up to so many billion parameters do better with one short question at a time than with tools."""
SMALLEST = 0.05
"""`1m` in a name is a context of a million tokens: no model that people run has so few parameters."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?) ?([bm])(?![a-z0-9])", re.IGNORECASE)
_THINKING = re.compile(
    r"(?<![a-z0-9])(r1|qwq|o1)(?![a-z0-9])|think|reason|gpt-?oss|magistral|smollm3|exaone-?deep|deepcoder"
    r"|deepscaler|qwen-?3(?![0-9b]|.*(coder|instruct|2507))",
    re.IGNORECASE,
)
"""Models that think before they answer: a short answer is over before it has begun."""
_NEW = re.compile(
    r"\W*(please\s+)?(accept|add|allow|build|bump|change|clean|convert|cover|create|define|delete|deprecate|describe"
    r"|document|drop|enable|explain|expose|extend|extract|format|generate|hide|implement|improve|introduce|list|log"
    r"|merge|migrate|move|name|open|port|print|provide|raise|refactor|remove|rename|replace|rewrite|show|simplify"
    r"|sort|split|summari[sz]e|support|switch|test|translate|update|upgrade|use|write"
    r"|make(?!.*\b(pass|passes|green|work|works|succeed)\b))\s+"
    r"(?!(is|are|was|does|fail(s|ed)?|crash(es|ed)?|gives|returns|\w+s instead|(an? )?(bug)?fix)\b)",
    re.IGNORECASE,
)
"""Verbs with which a goal begins that asks for something new. In `add returns` it is the name of a thing."""
_WISH = re.compile(r"\b(need|want|wants|would like|['\u2019]d like|wish|there should be)\b", re.IGNORECASE)
"""Words of somebody who wants something that is not there yet."""


def suited_flow(config: Config, goal: str) -> str:
    """`repair` for a small model and steps that can tell, unless the goal asks for something new.

    Whether there is something to repair is a fact: the flow runs the check first, and where that passes,
    or nothing says where to look, its stages are those of `staged`.
    """
    is_open = bool(goal.strip()) and not asks_for_something_new(goal)
    return "repair" if is_open and _can_repair(config) else "staged"


def depends_on_goal(config: Config) -> bool:
    """Whether tasks get `repair` or something else, by what they are about."""
    return (config.flow or config.mode) == "auto" and _can_repair(config)


def _can_repair(config: Config) -> bool:
    model = config.models.get(config.model or "")
    name = model.model if model else config.model or ""
    return bool(config.verification.steps) and answers_shortly(name)


def asks_for_something_new(goal: str) -> bool:
    """Whether a goal clearly asks for more than a repair, or is a question; in doubt it does not."""
    return bool(_NEW.match(without_politeness(goal)) or _WISH.search(goal)) or is_question(goal)


def answers_shortly(model: str) -> bool:
    """Whether a model is small by its name, and answers without thinking first."""
    size = billions(model)
    return size is not None and size <= SMALL and not _THINKING.search(model)


def billions(model: str) -> float | None:
    """How many billion parameters a model has by its name; of several numbers the largest counts."""
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in _SIZE.findall(model)]
    return max((size for size in sizes if size >= SMALLEST), default=None)


def builtin_flows() -> dict[str, Traversable]:
    """The flows that ship with Headgate, by name."""
    folder = resources.files("headgate.config") / "flows"
    if not folder.is_dir():
        return {}
    files = [item for item in folder.iterdir() if item.name.endswith(".yaml")]
    return {item.name.removesuffix(".yaml"): item for item in sorted(files, key=lambda item: item.name)}


KindSettings = Mapping[str, type[BaseModel]]
"""The kinds of stages there are, each with the type of its settings."""


def load_flow(
    name_or_file: str,
    repo: Path,
    tools: Iterable[ToolSpec] | None = None,
    checks: Sequence[CheckSpec] | None = None,
    kinds: KindSettings | None = None,
    *,
    whole: bool = True,
) -> Flow:
    """A built-in flow by name, or one in a file; a relative path starts at the repository.

    With `tools`, `checks` and `kinds`, what stages name must be among them. A part of a flow is not `whole`.
    """
    builtin = builtin_flows()
    if name_or_file in builtin:
        text = builtin[name_or_file].read_text("utf-8")
        document = parse_yaml(text, f"The built-in flow {name_or_file}")
        return _read_flow(document, name_or_file, tools, checks, kinds, whole)
    path = repo / name_or_file
    if "/" in name_or_file or name_or_file.endswith(FLOW_SUFFIXES):
        if not path.exists():
            raise ConfigError(f"There is no flow file {name_or_file}.")
        document = read_yaml(path, name_or_file)
        return _read_flow(document, PurePosixPath(name_or_file).stem, tools, checks, kinds, whole)
    close = nearest(name_or_file, builtin)
    hint = f': did you mean "{close}"?' if close else "."
    raise ConfigError(
        f'There is no flow "{name_or_file}"{hint} The built-in flows are {", ".join(builtin) or "none"}; '
        "to use your own flow, name its .yaml file."
    )


class _FlowDumper(yaml.SafeDumper):
    """Writes prompts as blocks, and short lists and mappings on one line."""


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


def flow_from_config(
    config: Config,
    task_flow: str | None,
    repo: Path,
    tools: Iterable[ToolSpec] | None = None,
    documents: Sequence[Document] = (),
    goal: str = "",
    checks: Sequence[CheckSpec] | None = None,
    kinds: KindSettings | None = None,
) -> Flow:
    """The flow of a task with this goal: its own choice, else `flow`, else `task_flow_mode`.

    Stages in agent.yaml gate nothing unless they say so, and the flow ends with the verification. `documents`
    are the configuration's files, weakest first, for errors with line numbers.
    """
    _check_tool_lists(config, tools, documents)
    chosen = task_flow or config.flow or config.mode
    if chosen == "auto":
        chosen = suited_flow(config, goal)
    if not isinstance(chosen, str) and len(chosen) == 1 and isinstance(chosen[0], FlowFile):
        chosen = chosen[0].file  # the whole flow, with its checks
    if isinstance(chosen, str):
        builtin = chosen in builtin_flows()
        flow = load_flow(chosen, repo, tools, checks, kinds)
        flow = with_plan_mode(flow, config.task_plan_mode) if builtin else flow
        tuned = tune(flow, config, builtin=builtin)
        return _checked(tuned, Document(f"The flow {flow.name}", {}), tools, checks, kinds)
    written = _document_with("flow", documents)
    inner = Document(
        written.name,
        {"stages": written.data.get("flow", [])},
        {("stages", *place[1:]): line for place, line in written.lines.items() if place[:1] == ("flow",)},
    )
    for index, entry in enumerate(chosen):
        if isinstance(entry, Stage) and checks is not None:
            read_stage_checks(entry, checks, written, ("flow", index))  # for errors at the right place
    stages = [stage for entry in chosen for stage in _stages_of(entry, repo, tools, checks, kinds)]
    flow = Flow(name="custom", stages=tuple(stages), checks={"verify": True})
    return _checked(tune(_checked(flow, inner, tools, checks, kinds), config), inner, tools, checks, kinds)


def _document_with(key: str, documents: Sequence[Document]) -> Document:
    """The strongest of the configuration's files that has a key."""
    return next((item for item in reversed(documents) if key in item.data), Document("agent.yaml", {}))


def _check_tool_lists(
    config: Config, tools: Iterable[ToolSpec] | None, documents: Sequence[Document]
) -> None:
    """ConfigError where `tools_allow` or `tools_block` of agent.yaml names a tool that does not exist."""
    lists = {"tools_allow": config.tools_allow or (), "tools_block": config.tools_block or ()}
    for problem in tool_problems(lists, tools or ()) if tools is not None else ():
        raise _document_with(str(problem.where[0]), documents).error(problem.where, problem.message)


def _stages_of(
    entry: Stage | FlowFile,
    repo: Path,
    tools: Iterable[ToolSpec] | None,
    checks: Sequence[CheckSpec] | None,
    kinds: KindSettings | None,
) -> tuple[Stage, ...]:
    """A stage, or those of the file that is named in its place."""
    if isinstance(entry, FlowFile):
        return load_flow(entry.file, repo, tools, checks, kinds, whole=False).stages
    return (entry,)


def _read_flow(
    document: Document,
    name: str,
    tools: Iterable[ToolSpec] | None,
    checks: Sequence[CheckSpec] | None,
    kinds: KindSettings | None,
    whole: bool,
) -> Flow:
    data = {"name": name, **document.data}
    if "stages" in data:
        data["stages"] = expand_stages(data["stages"])
    try:
        flow = Flow.model_validate(data)
    except ValidationError as error:
        raise explain(error, Document(document.name, data, document.lines), Flow) from None
    return _checked(flow, document, tools, checks, kinds, whole)


def _checked(
    flow: Flow,
    document: Document,
    tools: Iterable[ToolSpec] | None,
    checks: Sequence[CheckSpec] | None,
    kinds: KindSettings | None = None,
    whole: bool = True,
) -> Flow:
    if kinds is not None:
        _check_kinds(flow.stages, document, kinds, ("stages",))
    if checks is not None:
        flow = with_check_arguments(flow, checks, document)
    problem = next(flow_problems(flow, tools, checks or (), whole=whole), None)
    if problem is not None:
        raise document.error(problem.where, problem.message)
    return flow


def _check_kinds(stages: Sequence[Stage], document: Document, kinds: KindSettings, where: Place) -> None:
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
