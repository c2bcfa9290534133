"""Finding and reading flows: built in, in a file, or written into agent.yaml."""

from collections.abc import Iterable, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from headgate.config.knobs import tune, with_plan_mode
from headgate.config.schema import Config
from headgate.config.stages import FLOW_SUFFIXES, FlowFile, expand_stages
from headgate.config.suited import suited_flow
from headgate.config.yamlfile import Document, explain, parse_yaml, read_yaml
from headgate.core.flow import Checks, Flow, Stage
from headgate.core.flowproblems import flow_problems, tool_problems
from headgate.core.messages import ToolSpec
from headgate.core.names import nearest
from headgate.errors import ConfigError


def builtin_flows() -> dict[str, Traversable]:
    """The flows that ship with Headgate, by name."""
    folder = resources.files("headgate.config") / "flows"
    if not folder.is_dir():
        return {}
    files = [item for item in folder.iterdir() if item.name.endswith(".yaml")]
    return {item.name.removesuffix(".yaml"): item for item in sorted(files, key=lambda item: item.name)}


def load_flow(
    name_or_file: str, repo: Path, tools: Iterable[ToolSpec] | None = None, *, whole: bool = True
) -> Flow:
    """A built-in flow by name, or one in a file; a relative path starts at the repository.

    With `tools`, the tools that stages name must be among them. A part of a flow is not `whole`.
    """
    builtin = builtin_flows()
    if name_or_file in builtin:
        text = builtin[name_or_file].read_text("utf-8")
        return _read_flow(parse_yaml(text, f"The built-in flow {name_or_file}"), name_or_file, tools, whole)
    path = repo / name_or_file
    if "/" in name_or_file or name_or_file.endswith(FLOW_SUFFIXES):
        if not path.exists():
            raise ConfigError(f"There is no flow file {name_or_file}.")
        return _read_flow(read_yaml(path, name_or_file), PurePosixPath(name_or_file).stem, tools, whole)
    close = nearest(name_or_file, builtin)
    hint = f': did you mean "{close}"?' if close else "."
    raise ConfigError(
        f'There is no flow "{name_or_file}"{hint} The built-in flows are {", ".join(builtin) or "none"}; '
        "to use your own flow, name its .yaml file."
    )


def flow_from_config(
    config: Config,
    task_flow: str | None,
    repo: Path,
    tools: Iterable[ToolSpec] | None = None,
    documents: Sequence[Document] = (),
    goal: str = "",
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
        flow = load_flow(chosen, repo, tools)
        flow = with_plan_mode(flow, config.task_plan_mode) if builtin else flow
        return _checked(tune(flow, config, builtin=builtin), Document(f"The flow {flow.name}", {}), tools)
    written = _document_with("flow", documents)
    inner = Document(
        written.name,
        {"stages": written.data.get("flow", [])},
        {("stages", *place[1:]): line for place, line in written.lines.items() if place[:1] == ("flow",)},
    )
    stages = [stage for entry in chosen for stage in _stages_of(entry, repo, tools)]
    flow = Flow(name="custom", stages=tuple(stages), checks=Checks(verify=True))
    return _checked(tune(_checked(flow, inner, tools), config), inner, tools)


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


def _stages_of(entry: Stage | FlowFile, repo: Path, tools: Iterable[ToolSpec] | None) -> tuple[Stage, ...]:
    """A stage, or those of the file that is named in its place."""
    return load_flow(entry.file, repo, tools, whole=False).stages if isinstance(entry, FlowFile) else (entry,)


def _read_flow(document: Document, name: str, tools: Iterable[ToolSpec] | None, whole: bool) -> Flow:
    data = {"name": name, **document.data}
    if "stages" in data:
        data["stages"] = expand_stages(data["stages"])
    try:
        flow = Flow.model_validate(data)
    except ValidationError as error:
        raise explain(error, Document(document.name, data, document.lines), Flow) from None
    return _checked(flow, document, tools, whole)


def _checked(flow: Flow, document: Document, tools: Iterable[ToolSpec] | None, whole: bool = True) -> Flow:
    problem = next(flow_problems(flow, tools, whole=whole), None)
    if problem is not None:
        raise document.error(problem.where, problem.message)
    return flow
