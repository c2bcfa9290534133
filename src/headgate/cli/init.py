"""`headgate init`: looks at the project and writes its agent.yaml."""

import json
import os
import shutil
import stat
from pathlib import Path

import click

from headgate.cli.options import find_repo, repo_option
from headgate.config.detect import Detection, detect_project
from headgate.config.load import CONFIG_NAME, find_configs
from headgate.config.schema import provider_of, unknown_model
from headgate.errors import ConfigError, HeadgateError
from headgate.host.atomic import Batch
from headgate.host.git import exclude_internal, git

_MODEL_EXAMPLES = """\
# The model, and the address of its server. Any server that speaks the OpenAI protocol will do:
#   Ollama:     model: openai/qwen3-coder   base_url: http://localhost:11434/v1
#   llama.cpp:  model: openai/local         base_url: http://localhost:8080/v1
#   vLLM:       model: openai/NAME          base_url: http://localhost:8000/v1
#   LM Studio:  model: openai/NAME          base_url: http://localhost:1234/v1
# or, with a key in HEADGATE_API_KEY: openai/NAME, anthropic/NAME.
"""


@click.command("init")
@repo_option
@click.option("--force", is_flag=True, help="Overwrite an agent.yaml that is there already.")
@click.option("--model", metavar="MODEL", help="The model to write into the file.  [default: none]")
def command(repo: Path | None, force: bool, model: str | None) -> None:
    """Write agent.yaml for this repository.

    Looks at the project's files, finds out how it is tested, and writes what it found with comments. Nothing
    is run. Also keeps `.headgate/`, where Headgate stores its data, out of git.
    """
    root = find_repo(repo)
    if model is not None and not provider_of(model):
        raise unknown_model(model)
    python = "python" if shutil.which("python") and not shutil.which("python3") else "python3"
    git(root, "version")  # before anything is written
    detection = detect_project(root, python)
    existed = write_config(root, render_config(detection, model), force=force)
    exclude_internal(root)
    for kind in detection.kinds:
        click.echo(f"Found {kind.name} ({kind.evidence}).")
    for hint in detection.hints:
        click.echo(hint)
    click.echo(f"{'Rewrote' if existed else 'Wrote'} {CONFIG_NAME}" + (":" if detection.steps else "."))
    for step in detection.steps:
        click.echo(f"  {step.name}: {step.command}")
    if detection.left_out:
        click.echo(f"Left out, and in {CONFIG_NAME} as comments:")
    for step in detection.left_out:
        click.echo(f"  {step.name}: {step.command}")
    first = "" if model else f"Name a model in {CONFIG_NAME} or in HEADGATE_MODEL. "
    click.echo(f'Next: {first}Run "headgate doctor" to check, then headgate run "what to do".')


def render_config(detection: Detection, model: str | None = None) -> str:
    """The text of agent.yaml."""
    lines = [_MODEL_EXAMPLES.rstrip("\n")]
    if model:
        lines += [f"model: {_quote(model)}", "# base_url: http://localhost:11434/v1"]
    else:
        lines += ["# model: openai/qwen3-coder", "# base_url: http://localhost:11434/v1"]
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
        lines += ["# There are none yet. Until there are some, results are reported as unverified."]
        lines += ["verification:", "  steps: []"]
        if not detection.left_out:
            lines += ["  # - name: tests", "  #   command: make test"]
    if detection.left_out:
        where = "here" if detection.steps else "in place of []"
        lines += [f"  # Projects below the root, which were left out: write those that count {where}."]
    for step in detection.left_out:
        lines += [f"    # - name: {_quote(step.name)}", f"    #   command: {_quote(step.command)}"]
    lines += ["", "# Paths that no task may write.", "boundaries: []", '# boundaries: ["migrations/**"]', ""]
    return "\n".join(lines)


def write_config(root: Path, text: str, *, force: bool) -> bool:
    """Writes agent.yaml whole or not at all, over an old one only by force; says whether there was one."""
    path = root / CONFIG_NAME
    for other in find_configs(root):
        if other != CONFIG_NAME:
            raise ConfigError(f"{other} configures this repository already: edit it, or remove it first.")
    try:
        return _write_config(root, path, text, force=force)
    except OSError as error:
        # The error itself names the temporary file that the text goes to first, or nothing.
        raise HeadgateError(f"{path} cannot be written: {error.strerror or error}.") from error


def _write_config(root: Path, path: Path, text: str, *, force: bool) -> bool:
    try:
        old = path.lstat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise ConfigError(f"{path} is not a regular file: move it away first.")
    if old is not None and not force:
        raise ConfigError(f"{path} exists already: use --force to overwrite it.")
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
