"""The files that a person mentions in the task, as the first message of a conversation shows them."""

import base64
from dataclasses import dataclass

from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    MAX_IMAGE_BYTES,
    Image,
    Mention,
    Stage,
    clean_text,
    find_mentions,
    image_type,
    is_image_name,
    show_path,
)
from headgate.errors import ToolError
from headgate.models import sees_images
from headgate.run.job import Job
from headgate.tools import describe_odd, excerpt, excerpt_size, lines_of, listing, share_room
from headgate.tree import File, MentionedPaths

SHARE = 0.2
"""Of the context window, for all mentioned files together."""
MOST_CHARS = 80_000
"""However large the window is: whoever mentions more wants it searched, not read."""
MOST_IMAGES = 5
HEADING = "Files that the task mentions:"


@dataclass(frozen=True, slots=True)
class Mentioned:
    """What a conversation begins with because the task mentions it."""

    text: str = ""
    read: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    images: tuple[tuple[str, Image], ...] = ()
    """By path."""
    problems: tuple[str, ...] = ()
    """What could not be shown, or not as it was mentioned: a sentence each."""


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file, and the lines of it that are wanted."""

    file: File
    first: int | None = None
    last: int | None = None
    remark: str = ""


def read_mentions(job: Job, stage: Stage, window: int) -> Mentioned:
    """Reads what the task mentions, as the tools would: the same guards refuse the same files."""
    paths = MentionedPaths(job.place.context.workspace, _package(job))
    found = find_mentions(f"{job.task.text}\n{job.task.added}", paths.exists).found
    reader = _Reader(job, sees_images(job.models.settings[stage.model]))
    for mention in found:
        reader.read(mention, paths.find(mention.path), paths)
    most = stage.view.max_tokens if stage.execution else None
    room = int(min(window, most or window) * CHARS_PER_CODE_TOKEN * SHARE)
    return reader.result(min(room, MOST_CHARS))


class _Reader:
    """Reads one mention after another, and shows them together in the room that there is."""

    def __init__(self, job: Job, has_eyes: bool) -> None:
        self._workspace = job.place.context.workspace
        self._has_eyes = has_eyes
        self._shown: list[_Lines | _Folder] = []
        self._images: dict[str, Image] = {}
        self._problems: list[str] = []

    def read(self, mention: Mention, place: str, paths: MentionedPaths) -> None:
        """Takes one mention in; what is wrong with it becomes a problem."""
        try:
            if paths.is_folder(place):
                files = tuple(show_path(path) for path in self._workspace.files(place))
                self._shown.append(_Folder(show_path(self._workspace.locate(place)) or ".", files))
                return
            file = self._workspace.read(place)
        except ToolError as error:
            self._problems.append(clean_text(f"{mention}: {error}"))
            return
        if kind := image_type(file.data):
            self._take_image(file, kind)
        elif odd := describe_odd(file):
            said = f"{show_path(file.path)} {odd}"
            called = ", and no image that a model can be shown" if is_image_name(file.path) else ""
            self._problems.append(f"{said}{called}.")
        else:
            self._shown.append(_clip(mention, file))

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

    def result(self, room: int) -> Mentioned:
        remarks = [one.remark for one in self._shown if isinstance(one, _Lines)]
        problems = [*self._problems, *filter(None, remarks)]
        said = [*(f"{path} (image, attached)" for path in self._images), *problems]
        sizes = [_size(one) for one in self._shown]
        shares = share_room(sizes, room - sum(len(line) + 2 for line in said))
        parts = [_render(one, share) for one, share in zip(self._shown, shares, strict=True)]
        parts += said
        return Mentioned(
            "\n\n".join([HEADING, *parts]) if parts else "",
            tuple(dict.fromkeys(one.file.path for one in self._shown if isinstance(one, _Lines))),
            tuple(dict.fromkeys(one.path for one in self._shown if isinstance(one, _Folder))),
            tuple(self._images.items()),
            tuple(problems),
        )


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


def _package(job: Job) -> str | None:
    directory = job.place.context.directory
    return directory.relative_to(job.place.context.workspace.root).as_posix() if directory else None
