"""`headgate init`: looks at the project and writes its agent.yaml."""

import asyncio
import json
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from headgate.cli.model_choice import choose_model
from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.live import say
from headgate.config import CONFIG_NAME, Detection, detect_project, find_configs
from headgate.errors import ConfigError, HeadgateError
from headgate.models.network import FoundModel, FoundServer, find_servers
from headgate.workspace import Batch, exclude_internal, git

_MODEL_EXAMPLES = """\
# The model, and the address of its server. Servers that speak the OpenAI protocol need both:
#   Ollama:     model: ollama/qwen3-coder
#   llama.cpp:  model: openai/local   base_url: http://localhost:8080/v1
#   vLLM:       model: openai/NAME    base_url: http://localhost:8000/v1
#   LM Studio:  model: openai/NAME    base_url: http://localhost:1234/v1
# Hosted, with a key in HEADGATE_API_KEY: openai/gpt-5, anthropic/NAME.
"""


@click.command("init")
@repo_option
@click.option("--force", is_flag=True, help="Overwrite an existing agent.yaml.")
@click.option("--model", metavar="MODEL", help="The model to write.  [default: one found on this machine]")
@click.option("--base-url", metavar="URL", help="The address of the model's server.")
def command(repo: Path | None, force: bool, model: str | None, base_url: str | None) -> None:
    """Write agent.yaml for this repository.

    Reads the project's files to find out how it is tested, and looks for model servers on this machine
    (Ollama, llama.cpp, vLLM, LM Studio). Writes what it finds, with comments. Runs nothing, and sends no code
    anywhere. Also keeps `.headgate/`, where Headgate stores its data, out of git.
    """
    root = find_repo(repo)
    _check_place(root / CONFIG_NAME, force=force)
    choice = choose_model(model, base_url, os.environ, _look_for_servers, _ask_which if _can_ask() else None)
    python = "python" if shutil.which("python") and not shutil.which("python3") else "python3"
    git(root, "version")  # before anything is written
    detection = detect_project(root, python, lambda program: shutil.which(program) is not None)
    existed = write_config(root, render_config(detection, choice.model, choice.base_url), force=force)
    exclude_internal(root)
    for kind in detection.kinds:
        say(f"Found {kind.name} ({kind.evidence}).")
    for hint in detection.hints:
        say(hint, hanging=2)
    for line in choice.said:
        say(line, hanging=2)
    say(
        f"{'Rewrote' if existed else 'Wrote'} {CONFIG_NAME}"
        + (":" if detection.steps or choice.model else ".")
    )
    if choice.model:
        say(f"  model: {choice.model}" + (f" at {choice.base_url}" if choice.base_url else ""))
    for step in detection.steps:
        say(f"  {step.name}: {step.command}")
    if detection.left_out:
        say(f"Left out; {CONFIG_NAME} has them as comments:")
    for step in detection.left_out:
        say(f"  {step.name}: {step.command}")
    todo = f"{choice.todo} " if choice.todo else ""
    say(f'Next: {todo}Run "headgate doctor" to check, then headgate run "what to do".', hanging=2)


def _look_for_servers(places: Sequence[tuple[str, str]]) -> list[FoundServer]:
    return asyncio.run(find_servers(places))


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask_which(models: Sequence[FoundModel]) -> FoundModel:
    click.echo("Models on this machine:")
    for number, model in enumerate(models, 1):
        click.echo(f"  {number}  {model.spec}" + (f" at {model.base_url}" if model.base_url else ""))
    chosen = click.prompt("Which one should tasks use?", default=1, type=click.IntRange(1, len(models)))
    return models[int(chosen) - 1]


def render_config(detection: Detection, model: str | None = None, base_url: str | None = None) -> str:
    """The text of agent.yaml."""
    lines = [_MODEL_EXAMPLES.rstrip("\n")]
    lines.append(f"model: {_quote(model)}" if model else "# model: ollama/qwen3-coder")
    if base_url:
        lines.append(f"base_url: {_quote(base_url)}")
    lines += [
        "",
        "# Work counts as done when all of these succeed. They run in the repository's root,",
        "# or in `monorepo.package` where that is set.",
    ]
    if detection.steps:
        lines += ["verification:", "  steps:"]
        for step in detection.steps:
            lines += [f"    - name: {_quote(step.name)}", f"      command: {_quote(step.command)}"]
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
        lines += [f"    # - name: {_quote(step.name)}", f"    #   command: {_quote(step.command)}"]
    lines += ["", "# Paths that no task may write.", "boundaries: []", '# boundaries: ["migrations/**"]', ""]
    return "\n".join(lines)


def write_config(root: Path, text: str, *, force: bool) -> bool:
    """Writes agent.yaml whole or not at all, over an old one only by force; says whether there was one."""
    path = root / CONFIG_NAME
    for other in find_configs(root):
        if other != CONFIG_NAME:
            raise ConfigError(f"{other} already configures this repository: edit it, or remove it first.")
    try:
        return _write_config(root, path, text, force=force)
    except OSError as error:
        # The error itself names the temporary file that the text goes to first, or nothing.
        raise HeadgateError(f"{path} cannot be written: {error.strerror or error}.") from error


def _check_place(path: Path, *, force: bool) -> os.stat_result | None:
    """What is there already; ConfigError where it may not be overwritten."""
    try:
        old = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise ConfigError(f"{path} is not a regular file: move it away first.")
    if not force:
        raise ConfigError(f"{path} already exists: use --force to overwrite it.")
    return old


def _write_config(root: Path, path: Path, text: str, *, force: bool) -> bool:
    old = _check_place(path, force=force)
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with Batch() as batch:
            batch.write(CONFIG_NAME, directory, CONFIG_NAME, text.encode(), mode=0o666, old=old)
            batch.commit()
    finally:
        os.close(directory)
    return old is not None


def _quote(text: str) -> str:
    """A JSON string is a YAML string, whatever is in it."""
    return json.dumps(text)
