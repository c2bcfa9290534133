"""The files that a person mentions in a task: where they are, and what the first message shows of them."""

import base64
from collections.abc import Iterable

from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    Image,
    ModelSettings,
    Stage,
    clean_text,
    show_path,
)
from headgate.errors import ImageRefused, ToolDenied, ToolError
from headgate.features.mentions.events import MentionsRead
from headgate.features.mentions.signs import Mention, find_mentions
from headgate.first_use import dataclass
from headgate.models import sees_images
from headgate.run import Attached, Job
from headgate.tools import describe_odd, excerpt, excerpt_size, lines_of, listing, share_room
from headgate.tree import File, Workspace

SHARE = 0.2
"""Of the context window, for all mentioned files together."""
MOST_CHARS = 80_000
"""However large the window is: whoever mentions more wants it searched, not read."""
MOST_IMAGES = 5
MAX_IMAGE_BYTES = 5_000_000
"""What the providers take of one image."""
HEADING = "Files that the task mentions:"
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_IMAGE_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def _image_type(data: bytes) -> str:
    """The media type of an image that models can be shown, by its content; empty for all else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), "")


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file, and the lines of it that are wanted."""

    file: File
    first: int | None = None
    last: int | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Places:
    """Finds what a mention means: from the repository's root, or else from the package of a monorepo."""

    workspace: Workspace
    package: str | None

    def exists(self, path: str) -> bool:
        """Whether a mention means something. A folder needs a slash: `@test` is more often something else."""
        return bool(self._find(path))

    def look(self, mention: Mention) -> File | _Folder:
        """What is mentioned; ToolError if it may not be read."""
        place = self._find(mention.path)
        return _Folder(place) if self._is_folder(place) else self.workspace.read(place)

    def _find(self, path: str) -> str:
        """The path to read; empty if nothing is there. Reading it may still be refused."""
        from_package = [f"{self.package}/{path}"] if self.package else []
        return next((place for place in (path, *from_package) if self._is_there(place)), "")

    def _is_folder(self, place: str) -> bool:
        try:
            return self.workspace.stamp(self.workspace.locate(place)) is None
        except ToolError:
            return False

    def _is_there(self, place: str) -> bool:
        try:
            if not self.workspace.exists(place):
                return False
        except ToolDenied:  # a file for secrets, say: whoever mentions it is told so
            return self.workspace.stamp(place.removeprefix("./")) is not None
        except ToolError:
            return False
        return "/" in place or not self._is_folder(place)


# What whoever submits a task is told.


def check_mentions(
    workspace: Workspace, package: str | None, models: Iterable[ModelSettings], text: str
) -> tuple[str, ...]:
    """A line for each mention that shows the model nothing. ImageRefused for an image that it cannot see."""
    places = _Places(workspace, package)
    mentions = find_mentions(text, places.exists)
    lines = [_explain_missing(workspace, mention) for mention in mentions.missing]
    for mention in mentions.found:
        try:
            found = places.look(mention)
        except ToolError as error:
            lines.append(f"{mention} is not attached: {error}")
            continue
        if isinstance(found, _Folder):
            continue
        shown = show_path(found.path)
        if not _image_type(found.data):
            if found.data and (odd := describe_odd(found)):
                lines.append(f"{mention} is not attached: {shown} {odd}.")
        elif not any(map(sees_images, asked := list(models))):
            names = ", ".join(dict.fromkeys(model.model for model in asked))
            raise ImageRefused(
                f"{shown} is an image, and {names} cannot see images: leave it out, choose a model"
                " that can, or set `images: true` for the model in `models`."
            )
        elif len(found.data) > MAX_IMAGE_BYTES:
            most = MAX_IMAGE_BYTES // 1_000_000
            raise ImageRefused(f"{shown} is larger than {most} MB: make the image smaller.")
    return tuple(map(clean_text, lines))


def _explain_missing(workspace: Workspace, mention: Mention) -> str:
    """That there is no such file, with the nearest one; or why it is out of reach."""
    try:
        workspace.list(mention.path) if mention.path.endswith("/") else workspace.read(mention.path)
    except ToolError as error:
        return f"{mention} is not attached: {error}"
    return f"{mention} is not attached."  # it has come into being since


# What the model is shown.


def read_mentions(job: Job, stage: Stage, window: int) -> Attached:
    """Reads what the task mentions, as the tools would: the same guards refuse the same files."""
    context = job.place.context
    package = context.directory.relative_to(context.workspace.root).as_posix() if context.directory else None
    places = _Places(context.workspace, package)
    reader = _Reader(job, sees_images(job.models.settings[stage.model]))
    for mention in find_mentions(f"{job.task.text}\n{job.task.added}", places.exists).found:
        reader.read(mention, places)
    most = stage.view.max_tokens if stage.execution else None
    room = int(min(window, most or window) * CHARS_PER_CODE_TOKEN * SHARE)
    return reader.result(min(room, MOST_CHARS))


class _Reader:
    """Reads one mention after another, and shows them together in the room that there is."""

    def __init__(self, job: Job, has_eyes: bool) -> None:
        self._workspace = job.place.context.workspace
        self._redact = job.place.redact
        self._has_eyes = has_eyes
        self._shown: list[_Lines | _Folder] = []
        self._images: dict[str, Image] = {}
        self._problems: list[str] = []

    def read(self, mention: Mention, places: _Places) -> None:
        """Takes one mention in; what is wrong with it becomes a problem."""
        try:
            found = places.look(mention)
            if isinstance(found, _Folder):
                files = tuple(show_path(path) for path in self._workspace.files(found.path))
                self._shown.append(_Folder(show_path(self._workspace.locate(found.path)) or ".", files))
                return
        except ToolError as error:
            self._problems.append(clean_text(f"{mention}: {error}"))
            return
        if kind := _image_type(found.data):
            self._take_image(found, kind)
        elif odd := describe_odd(found):
            called = found.path.lower().endswith(_IMAGE_NAMES)
            no_image = ", and no image that a model can be shown" if called else ""
            self._problems.append(f"{show_path(found.path)} {odd}{no_image}.")
        else:
            self._shown.append(_clip(mention, found))

    def _take_image(self, file: File, kind: str) -> None:
        shown = show_path(file.path)
        if not self._has_eyes:
            self._problems.append(f"{shown} is an image, which this model cannot see.")
        elif len(file.data) > MAX_IMAGE_BYTES:
            most = MAX_IMAGE_BYTES // 1_000_000
            self._problems.append(f"{shown} is not shown: it is larger than {most} MB.")
        elif len(self._images) == MOST_IMAGES and shown not in self._images:
            self._problems.append(f"{shown} is not shown: a message takes {MOST_IMAGES} images at most.")
        else:
            self._images[shown] = Image(kind, base64.b64encode(file.data).decode())

    def result(self, room: int) -> Attached:
        files = [one for one in self._shown if isinstance(one, _Lines)]
        folders = [one.path for one in self._shown if isinstance(one, _Folder)]
        problems = [*self._problems, *(one.remark for one in files if one.remark)]
        said = [*(f"{path} (image, attached)" for path in self._images), *problems]
        if not self._shown and not said:
            return Attached()
        sizes = [_size(one) for one in self._shown]
        shares = share_room(sizes, room - sum(len(line) + 2 for line in said))
        parts = [_render(one, share) for one, share in zip(self._shown, shares, strict=True)]
        read = tuple(dict.fromkeys(one.file.path for one in files))
        event = MentionsRead(
            read=tuple(map(show_path, read)),
            folders=tuple(dict.fromkeys(folders)),
            images=tuple(self._images),
            problems=tuple(map(self._redact, problems)),
        )
        return Attached("\n\n".join([HEADING, *parts, *said]), read, tuple(self._images.items()), event)


def _clip(mention: Mention, file: File) -> _Lines:
    """The lines that are mentioned, as far as the file has them."""
    total = len(lines_of(file))
    shown, first, last = show_path(file.path), mention.first, mention.last
    if first is None:
        return _Lines(file)
    if first > total:
        said = f"{mention}: {shown} has only {total} lines, so it is shown from its beginning."
        return _Lines(file, remark=said)
    if last is not None and last > total:
        return _Lines(file, first, total, f"{mention}: {shown} has only {total} lines.")
    return _Lines(file, first, last)


def _size(one: _Lines | _Folder) -> int:
    if isinstance(one, _Folder):
        return sum(len(path) + 1 for path in one.files) + len(one.path) + 100
    return excerpt_size(one.file, one.first, one.last)


def _render(one: _Lines | _Folder, share: int) -> str:
    if isinstance(one, _Folder):
        head = f"{one.path}/" if one.path != "." else "The repository"
        return listing(f"{head} has", list(one.files), share) if one.files else f"{head} has no files."
    return excerpt(one.file, share, one.first, one.last)
