"""What whoever submits a task is told about the files that it mentions."""

from collections.abc import Iterable
from pathlib import Path

from headgate.config import Config
from headgate.core import MAX_IMAGE_BYTES, Mention, clean_text, find_mentions, image_type, show_path
from headgate.engine.assembly import secret_guard
from headgate.engine.flow_models import FlowModel
from headgate.errors import ImageRefused, ToolError
from headgate.models import sees_images
from headgate.tools import describe_odd
from headgate.tree import DiskWorkspace, File, MentionedPaths, Workspace


def check_mentions(repo: Path, config: Config, models: Iterable[FlowModel], text: str) -> tuple[str, ...]:
    """A line for each mention that shows the model nothing. ImageRefused for an image that it cannot see."""
    if "@" not in text:
        return ()
    workspace = DiskWorkspace(repo, (secret_guard(repo, config),))
    paths = MentionedPaths(workspace, config.package)
    mentions = find_mentions(text, paths.exists)
    asked = [model.settings for model in models]
    lines = [_explain_missing(workspace, mention) for mention in mentions.missing]
    for mention in mentions.found:
        place = paths.find(mention.path)
        if paths.is_folder(place):
            continue
        try:
            file = workspace.read(place)
        except ToolError as error:
            lines.append(f"{mention} is not attached: {error}")
            continue
        if image_type(file.data):
            if not any(map(sees_images, asked)):
                raise ImageRefused(_explain_blindness(file, [settings.model for settings in asked]))
            _check_size(file)
        elif file.data and (odd := describe_odd(file)):
            lines.append(f"{mention} is not attached: {show_path(file.path)} {odd}.")
    return tuple(map(clean_text, lines))


def _explain_missing(workspace: Workspace, mention: Mention) -> str:
    """That there is no such file, with the nearest one; or why it is out of reach."""
    try:
        workspace.list(mention.path) if mention.path.endswith("/") else workspace.read(mention.path)
    except ToolError as error:
        return f"{mention} is not attached: {error}"
    return f"{mention} is not attached."  # it has come into being since


def _explain_blindness(file: File, models: list[str]) -> str:
    names = ", ".join(dict.fromkeys(models))
    return (
        f"{show_path(file.path)} is an image, and {names} cannot see images: leave it out, choose a model"
        " that can, or set `images: true` for the model in `models`."
    )


def _check_size(file: File) -> None:
    if len(file.data) > MAX_IMAGE_BYTES:
        most = MAX_IMAGE_BYTES // 1_000_000
        raise ImageRefused(f"{show_path(file.path)} is larger than {most} MB: make the image smaller.")
