"""`headgate init`: looks at the project and writes its agent.yaml."""

import asyncio
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from headgate.cli.model_choice import PLACEHOLDER, Ask, ModelChoice, choose_model, quote, set_model
from headgate.cli.printing import say
from headgate.cli.shared import find_repo_to_act, repo_option
from headgate.config import (
    CONFIG_NAME,
    Detection,
    detect_project,
    find_configs,
    load_config,
    provider_of,
    show_address,
)
from headgate.errors import ConfigError, HeadgateError, describe_system
from headgate.models.network import FoundModel, FoundServer, find_servers
from headgate.tree import WriteBatch, exclude_internal, git

_MODEL_EXAMPLES = """\
# The model. Ollama's need no address, unless Ollama is on another machine:
#   Ollama:     model: ollama/qwen3-coder
# Other servers speak the OpenAI protocol, and need the address, too:
#   llama.cpp:  model: openai/local   base_url: http://localhost:8080/v1
#   vLLM:       model: openai/NAME    base_url: http://localhost:8000/v1
#   LM Studio:  model: openai/NAME    base_url: http://localhost:1234/v1
# Hosted services need a key in the environment, and tasks send them the code that they read:
#   OpenAI:     model: openai/gpt-5     OPENAI_API_KEY or HEADGATE_API_KEY
#   Anthropic:  model: anthropic/NAME   ANTHROPIC_API_KEY or HEADGATE_API_KEY
"""

_MOST_NAMED = 4


@click.command("init")
@repo_option
@click.option(
    "--force", is_flag=True, help="Replace an existing agent.yaml; the old one is kept as agent.yaml.bak."
)
@click.option("--model", metavar="MODEL", help="The model to write.  [default: one found on this machine]")
@click.option("--base-url", metavar="URL", help="The address of the model's server.")
def command(repo: Path | None, force: bool, model: str | None, base_url: str | None) -> None:
    """Write agent.yaml for this repository.

    Reads the project's files to find out how it is tested, and looks for model servers on this machine
    (Ollama, llama.cpp, vLLM, LM Studio). Writes what it finds, with comments. Runs nothing, and sends no code
    anywhere. Also keeps `.headgate/`, where Headgate stores its data, out of git.

    If agent.yaml exists, only its lines `model:` and `base_url:` are changed, and only
    with --model, with --base-url, or if the file names no model yet. --force replaces the whole file.
    """
    root = find_repo_to_act(repo)
    check_other_configs(root)
    ask = _ask_which if sys.stdin.isatty() and sys.stdout.isatty() else None
    if _find_old(root / CONFIG_NAME) and not force:
        change_model(root, model, base_url, ask)
        return
    choice = choose_model(model, base_url, os.environ, _look_for_servers, ask)
    git(root, "version")  # before anything is written
    write_first_config(root, look_at_project(root), choice)


def check_other_configs(root: Path) -> None:
    """ConfigError if a file of another name configures the repository already."""
    for other in find_configs(root):
        if other != CONFIG_NAME:
            raise ConfigError(f"{other} already configures this repository: edit it, or remove it first.")


def choose_model_here() -> ModelChoice:
    """The model for a new agent.yaml: one on this machine, which a person may choose."""
    return choose_model(None, None, os.environ, _look_for_servers, _ask_which)


def look_at_project(root: Path) -> Detection:
    """What the project's files say about how it is tested. Nothing is run."""
    python = "python" if shutil.which("python") and not shutil.which("python3") else "python3"
    return detect_project(root, python, lambda program: shutil.which(program) is not None)


def write_first_config(
    root: Path, detection: Detection, choice: ModelChoice, *, at_prompt: bool = False
) -> None:
    """Writes agent.yaml with what was found, and says so.

    `at_prompt`: the person has seen what was found, and a prompt for tasks follows.
    """
    existed = _find_old(root / CONFIG_NAME) is not None
    kept = write_config(root, render_config(detection, choice.model, choice.base_url), keep_old=True)
    exclude_internal(root)
    if not at_prompt:
        say_found(detection)
    steps = [] if at_prompt else detection.steps
    for line in choice.said:
        say(line, hanging=2)
    say(f"{'Rewrote' if existed else 'Wrote'} {CONFIG_NAME}" + (":" if steps or choice.model else "."))
    if choice.model:
        say(f"  model: {choice.model}" + (f" at {choice.base_url}" if choice.base_url else ""))
    for step in steps:
        say(f"  {step.name}: {step.command}")
    if kept:
        say(f"Kept the old one as {kept}.")
    if detection.left_out:
        say(f"Left out; {CONFIG_NAME} has them as comments:")
    for step in detection.left_out:
        say(f"  {step.name}: {step.command}")
    if not at_prompt:
        _say_next(choice)
    elif choice.todo:
        say(f"Next: {choice.todo}", hanging=2)


def say_found(detection: Detection) -> None:
    """Says what kind of project it is."""
    for kind in detection.kinds:
        say(f"Found {kind.name} ({kind.evidence}).")
    for hint in detection.hints:
        say(hint, hanging=2)


def _say_next(choice: ModelChoice) -> None:
    todo = f"{choice.todo} " if choice.todo else ""
    say(f'Next: {todo}Run "headgate doctor" to check, then headgate run "what to do".', hanging=2)


def change_model(root: Path, model: str | None, base_url: str | None, ask: Ask | None) -> None:
    """Writes a model into the agent.yaml that is there, and leaves the rest as it is."""
    path = root / CONFIG_NAME
    loaded = load_config(root, environ={}, flags={})
    data = next(layer.document.data for layer in loaded.layers if layer.by_repository)
    if model is None and base_url is None and data.get("model"):
        raise ConfigError(
            f"{path} already exists. To change its model, run headgate init --model MODEL. "
            "To replace the whole file, run headgate init --force, which keeps a copy."
        )
    choice = _choose_other(data, model, base_url, ask)
    if choice.model is None:
        raise ConfigError(" ".join((f"{path} already exists and stays as it is.", *choice.said, choice.todo)))
    old_url = data.get("base_url")
    before, after = _provider(data, data.get("model")), _provider(data, choice.model)
    if data.get("api_key") and before != after:
        raise ConfigError(
            f"{path} has an api_key, which is not meant for {choice.model}: change the model there by hand."
        )
    text = set_model(path.read_bytes().decode(), choice.model, choice.base_url)
    if text is None:
        address = f" and base_url: {quote(choice.base_url)}" if choice.base_url else ""
        raise ConfigError(
            f"{path} cannot be changed line by line: write model: {quote(choice.model)}{address} "
            "there by hand."
        )
    write_config(root, text, keep_old=False)
    exclude_internal(root)
    for line in choice.said:
        say(line, hanging=2)
    say(f"Changed {CONFIG_NAME}; its other lines are unchanged:")
    say(f"  model: {choice.model}" + (f" at {choice.base_url}" if choice.base_url else ""))
    if old_url and not choice.base_url:
        say(f"Removed base_url: {show_address(old_url)}, the address of the model that was there.", hanging=2)
    _say_next(choice)


def _choose_other(
    data: Mapping[str, Any], model: str | None, base_url: str | None, ask: Ask | None
) -> ModelChoice:
    """The model to write over the one that the file has; a model of the same provider stays on its server."""
    own = data.get("base_url")
    if model is not None and model in data.get("models", {}) and base_url is None:
        return ModelChoice(model, own)
    if model is not None and base_url is None and provider_of(model) == _provider(data, data.get("model")):
        base_url = own
    return choose_model(model, base_url, os.environ, _look_for_servers, ask)


def _provider(data: Mapping[str, Any], model: str | None) -> str:
    """The provider of a model, which may be one that the file has in `models`."""
    entry = data.get("models", {}).get(model, {})
    return provider_of(str(entry.get("model", model or "")))


def _look_for_servers(places: Sequence[tuple[str, str]]) -> list[FoundServer]:
    return asyncio.run(find_servers(places))


def _ask_which(models: Sequence[FoundModel]) -> FoundModel:
    click.echo("Models on this machine:")
    for number, model in enumerate(models, 1):
        click.echo(f"  {number}  {model.spec}" + (f" at {model.base_url}" if model.base_url else ""))
    chosen: FoundModel = click.prompt(
        "Which one should tasks use? A number or a name",
        default="1",
        value_proc=lambda typed: pick_model(typed, models),
    )
    return chosen


def pick_model(typed: str, models: Sequence[FoundModel]) -> FoundModel:
    """The model that a person means by its number, its name, or a part of the name that only one has."""
    wanted = typed.strip().lower()
    if wanted.isdecimal() and 1 <= int(wanted) <= len(models):
        return models[int(wanted) - 1]
    names = {model: (model.spec.lower(), model.name.lower()) for model in models}
    same = [model for model in models if wanted in {n.removesuffix(":latest") for n in names[model]}]
    same = same or [model for model in models if wanted in names[model]]
    fitting = same or [model for model in models if wanted and wanted in model.name.lower()]
    if len(fitting) == 1:
        return fitting[0]
    how = f"Type a number from 1 to {len(models)}, or a part of a name that only one model has."
    if fitting:
        raise click.UsageError(
            f'"{typed}" fits {", ".join(model.spec for model in fitting[:_MOST_NAMED])}'
            f"{' and others' if len(fitting) > _MOST_NAMED else ''}. {how}"
        )
    raise click.UsageError(f'There is no model "{typed}" in the list. {how}')


def render_config(detection: Detection, model: str | None = None, base_url: str | None = None) -> str:
    """The text of agent.yaml."""
    lines = [_MODEL_EXAMPLES.rstrip("\n")]
    lines.append(f"model: {quote(model)}" if model else PLACEHOLDER)
    if base_url:
        lines.append(f"base_url: {quote(base_url)}")
    lines += [
        "",
        "# Work counts as done when all of these succeed. They run in the repository's root,",
        "# or in `monorepo.package` where that is set.",
    ]
    if detection.steps:
        lines += ["verification:", "  steps:"]
        for step in detection.steps:
            lines += [f"    - name: {quote(step.name)}", f"      command: {quote(step.command)}"]
            lines += [f"      timeout: {step.timeout:g}  # seconds"]
    else:
        lines += ["# There are none yet. Without steps, results are reported as unverified."]
        lines += ["verification:", "  steps: []"]
        if not detection.left_out:
            lines += ["  # - name: tests", "  #   command: make test"]
    if detection.left_out:
        where = "here" if detection.steps else "in place of []"
        lines += [
            f"  # Steps of projects below the root, which were left out: write those that you need {where}."
        ]
    for step in detection.left_out:
        lines += [f"    # - name: {quote(step.name)}", f"    #   command: {quote(step.command)}"]
    lines += ["", "# Paths that no task may write.", "boundaries: []", '# boundaries: ["migrations/**"]', ""]
    return "\n".join(lines)


def write_config(root: Path, text: str, *, keep_old: bool) -> str | None:
    """Writes agent.yaml whole or not at all; returns the name that an old one is kept under, if it is."""
    path = root / CONFIG_NAME
    try:
        return _write_config(root, path, text, keep_old=keep_old)
    except OSError as error:
        # The error itself names the temporary file that the text goes to first, or nothing.
        raise HeadgateError(f"cannot write {describe_system(error, path)}") from error


def _find_old(path: Path) -> os.stat_result | None:
    """What is there already; ConfigError where it may not be overwritten."""
    try:
        old = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise ConfigError(f"{path} is not a regular file: move it away first.")
    return old


def _write_config(root: Path, path: Path, text: str, *, keep_old: bool) -> str | None:
    old = _find_old(path)
    before = path.read_bytes() if old and keep_old else None
    kept = None
    if before is not None and before != text.encode():
        names = (f"{CONFIG_NAME}.bak{number}" for number in itertools.chain([""], itertools.count(2)))
        kept = next(name for name in names if not os.path.lexists(root / name))
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with WriteBatch() as batch:
            if kept and before is not None and old:
                mode = stat.S_IMODE(old.st_mode)
                batch.write(kept, directory, kept, before, mode=0o600, old=None, exact_mode=mode)
            batch.write(CONFIG_NAME, directory, CONFIG_NAME, text.encode(), mode=0o666, old=old)
            batch.commit()
    finally:
        os.close(directory)
    return kept
