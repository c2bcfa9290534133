"""Reading recipes: those that ship with Headgate, the team's, the user's, and the user's for this repository.

A later one replaces an earlier one of the same name: nothing in a repository replaces what its user chose."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headgate.config import (
    FLOW_SUFFIXES,
    Document,
    FlowNames,
    check_flow,
    explain,
    parse_yaml,
    read_yaml,
)
from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    DRIVE,
    EXECUTE_TOOL,
    OWN_FOLDER,
    PLANNER,
    RECIPE_NAME,
    Flow,
    InputDoc,
    Problem,
    Recipe,
    Stage,
    Where,
    cut_text,
    show_path,
    unknown_name,
)
from headgate.errors import ConfigError
from headgate.first_use import regex
from headgate.guard import DEFAULT_SECRETS, SecretNames
from headgate.remembered import user_config_path
from headgate.tree import leads_out

STEP_CHARS = 12
_NO_STEPS = (PLANNER, DRIVE)
"""Kinds that lead stages of their own: a planner in a recipe could choose the recipe that it is in."""
KNOWN_VARIABLES: Mapping[str, Any] = {"gathered": []}
"""What conditions of steps may look at besides results."""
MOST_FRAGMENT_CHARS = 100_000
_FRAGMENT = regex(r"^(?P<path>.*?)(?:\s+\((?P<tokens>\d+)\s+tokens\))?$")


def load_recipes(
    repo: Path, folders: Sequence[str], known: FlowNames, secret_files: Iterable[str] = ()
) -> dict[str, Recipe]:
    """Every recipe there is, by name. ConfigError if one of them is wrong.

    `secret_files`: patterns of files, besides the usual ones, that no step may be given.
    """
    secrets = SecretNames((*DEFAULT_SECRETS, *secret_files))
    found = {recipe.name: recipe for recipe in _built_in(known)}
    of_user, here = user_config_path().parent / "recipes", repo / OWN_FOLDER / "recipes"
    for folder in (*(_named_folder(repo, name) for name in folders), of_user, here):
        found |= {recipe.name: recipe for recipe in _in_folder(folder, repo, known, secrets)}
    for recipe in found.values():
        for name in recipe.leads_to:
            if name not in found:
                where = recipe.source or f"The recipe {recipe.name}"
                raise ConfigError(f"{where}: leads_to: {unknown_name('type of task', name, found)}.")
    return found


def _named_folder(repo: Path, name: str) -> Path:
    folder = repo / name
    if leads_out(repo, name):
        raise ConfigError(f"The setting recipes: {show_path(name)} points outside the repository.")
    if not folder.is_dir():
        raise ConfigError(f"The setting recipes: there is no folder {show_path(name)}.")
    return folder


def _built_in(known: FlowNames) -> Iterator[Recipe]:
    folder = resources.files("headgate.config") / "recipes"
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.name.endswith(".yaml"):
            name = item.name.removesuffix(".yaml")
            document = parse_yaml(item.read_text("utf-8"), f"The built-in recipe {name}")
            yield _read(document, name, folder, known)


def _in_folder(folder: Path, repo: Path, known: FlowNames, secrets: SecretNames) -> Iterator[Recipe]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.endswith(FLOW_SUFFIXES):
            shown = path.relative_to(repo).as_posix() if path.is_relative_to(repo) else str(path)
            if leads_out(folder, path.name):
                raise ConfigError(f"{shown} is a link that leads out of its folder: put the recipe there.")
            if not re.fullmatch(RECIPE_NAME, path.stem):
                raise ConfigError(
                    f"{shown}: the name of the file is the type of task, so it has at most 24 small letters,"
                    " digits and underscores, and begins with a letter."
                )
            document = read_yaml(path, shown)
            recipe = _read(document, path.stem, folder, known)
            _check_documents(recipe, document, secrets)
            yield recipe.model_copy(update={"source": shown if path.is_relative_to(repo) else ""})


def _read(document: Document, name: str, folder: Path | Traversable, known: FlowNames) -> Recipe:
    if "instructions" in document.data:
        raise document.error(("instructions",), "instructions are in files: name them in prompt_fragments")
    for key in ("source", "unavailable"):
        if key in document.data:
            raise document.error((key,), f"{key} is set by Headgate: leave it out")
    data = {"name": name, **document.data}
    if data["name"] != name:
        raise document.error(
            ("name",), f'the name of the file is the type of task: "name" can only be {name}'
        )
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise explain(error, Document(document.name, data, document.lines), Recipe) from None
    for problem in recipe_problems(recipe):
        raise document.error(problem.where, problem.message)
    flow = Flow(name=recipe.name, stages=recipe.stages, variables=dict(KNOWN_VARIABLES))
    checked = check_flow(flow, document, known)
    texts = tuple(_fragments(recipe, document, folder))
    return recipe.model_copy(update={"stages": checked.stages, "instructions": texts})


def _check_documents(recipe: Recipe, document: Document, secrets: SecretNames) -> None:
    """ConfigError if a step is to be given a file that holds secrets."""
    named: list[tuple[Where, InputDoc]]
    named = [(("input_docs", index), doc) for index, doc in enumerate(recipe.input_docs)]
    named += [(where, doc) for where, stage in _placed(recipe.stages) for doc in stage.input_docs]
    for where, doc in named:
        if secrets.covers(doc.path):
            raise document.error(where, f"{show_path(doc.path)} may contain secrets: no step can be given it")


def _placed(stages: Sequence[Stage], where: Where = ("stages",)) -> Iterator[tuple[Where, Stage]]:
    for index, stage in enumerate(stages):
        yield (*where, index), stage
        yield from _placed(stage.stages, (*where, index, "stages"))


def _fragments(recipe: Recipe, document: Document, folder: Path | Traversable) -> Iterator[str]:
    """The texts of the files with instructions, each in the tokens that it may have."""
    left = recipe.token_budget.prompt
    for index, named in enumerate(recipe.prompt_fragments):
        where = ("prompt_fragments", index)
        parts = _FRAGMENT.match(named)
        path, tokens = (parts["path"], parts["tokens"]) if parts else (named, None)
        if not path.endswith(".md"):
            raise document.error(where, "instructions are in Markdown files, whose names end in .md")
        text = _read_fragment(folder, path)
        if text is None:
            raise document.error(where, f"there is no file {show_path(path)} beside the recipe")
        if tokens:
            text = cut_text(text, int(int(tokens) * CHARS_PER_CODE_TOKEN), path)
        left -= int(len(text) / CHARS_PER_CODE_TOKEN)
        if left < 0:
            most = recipe.token_budget.prompt
            message = f"with {path}, the instructions have more than the {most} tokens of token_budget.prompt"
            raise document.error(where, message)
        yield text.strip()


def _read_fragment(folder: Path | Traversable, path: str) -> str | None:
    """The text of a file in the folder of a recipe; None if it is not there, or somewhere else."""
    if path.startswith("/") or ".." in path.split("/"):
        return None
    file = folder.joinpath(*path.split("/"))
    if isinstance(file, Path) and not file.resolve().is_relative_to(Path(str(folder)).resolve()):
        return None
    if not file.is_file():
        return None
    try:
        with file.open("r", encoding="utf-8") as stream:
            return stream.read(MOST_FRAGMENT_CHARS)
    except (OSError, UnicodeDecodeError):
        return None


# What is wrong with a recipe besides what is wrong with a flow.


def recipe_problems(recipe: Recipe) -> Iterator[Problem]:
    """Everything that is wrong with the steps."""
    yield from _step_problems(recipe.stages, ("stages",))
    if len(recipe.steps) > recipe.max_steps:
        message = f"there are {len(recipe.steps)} steps, and `max_steps` is {recipe.max_steps}"
        yield Problem(("max_steps",) if "max_steps" in recipe.model_fields_set else ("stages",), message)


def _step_problems(stages: Sequence[Stage], where: Where) -> Iterator[Problem]:
    for index, stage in enumerate(stages):
        here = (*where, index)
        if stage.kind in _NO_STEPS:
            yield Problem((*here, "kind"), f"a step of a recipe cannot be of the kind {stage.kind}")
        elif stage.foreach:
            message = f"a step of a recipe cannot be repeated for each {stage.foreach}: leave `foreach` out"
            yield Problem((*here, "foreach"), message)
        elif not stage.stages and len(stage.id) > STEP_CHARS:
            message = (
                f"the id of a step has at most {STEP_CHARS} characters, and {stage.id} has {len(stage.id)}"
            )
            yield Problem((*here, "id"), message)
        for key, names in (("allow", stage.tools.allow or ()), ("add", stage.tools.add)):
            for position, name in enumerate(names):
                if name == EXECUTE_TOOL:
                    message = "a step of a recipe cannot have execute: only a planner has it"
                    yield Problem((*here, "tools", key, position), message)
        yield from _step_problems(stage.stages, (*here, "stages"))
