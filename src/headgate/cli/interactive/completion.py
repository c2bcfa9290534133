"""What the prompt offers while somebody types: commands, what they are about, and files."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from headgate.guard import DEFAULT_SECRETS, SecretNames
from headgate.tree import ConfinedTree, walk_files

MOST_OFFERED = 50
Choice = tuple[str, str]
"""Something to choose, and what it is."""


class FileNames:
    """The files of a repository, without those that git ignores and those that hold secrets.

    They are listed in a thread, once for each call of `look`: a large tree takes a second.
    """

    def __init__(self, repo: Path, secret_files: Sequence[str] = ()) -> None:
        self._repo = repo
        self._secrets = SecretNames((*DEFAULT_SECRETS, *secret_files))
        self._looking: asyncio.Task[None] | None = None
        self.paths: Sequence[str] = ()

    def look(self) -> None:
        """Lists the files again, unless that is being done."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        self.paths = await asyncio.to_thread(self._list)

    def _list(self) -> Sequence[str]:
        may_offer = lambda path: not self._secrets.covers(path)  # noqa: E731
        return tuple(walk_files(ConfinedTree(self._repo), "", may_offer))


class PromptCompleter(Completer):
    """Commands after a slash, their arguments, files after @, and paths where the Tab key asks for them."""

    def __init__(
        self,
        commands: Callable[[], Mapping[str, str]],
        arguments: Callable[[str], Iterable[Choice]],
        files: FileNames,
    ) -> None:
        self._commands, self._arguments, self._files = commands, arguments, files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        head, space, _ = text.partition(" ")
        word = text.replace("\n", " ").rpartition(" ")[2]
        if word.startswith("@"):
            yield from self._offer_files(word[1:], mark="@")
        elif text.startswith("/") and not space and "\n" not in text:
            for name, meaning in self._commands().items():
                if name.startswith(head[1:].lower()):
                    yield _completion(f"/{name}", head, meaning)
        elif text.startswith("/") and text.count(" ") == 1:
            for value, meaning in self._arguments(head[1:].lower()):
                if value.startswith(word):
                    yield _completion(value, word, meaning)
        elif word and complete_event.completion_requested:
            yield from self._offer_files(word, mark="")

    def _offer_files(self, part: str, mark: str) -> Iterator[Completion]:
        for path in find_paths(self._files.paths, part, anywhere=bool(mark)):
            shown = f'"{path}"' if mark and " " in path else path  # as a mention is written
            yield Completion(f"{mark}{shown}", start_position=-len(part) - len(mark))


def _completion(text: str, typed: str, meaning: str) -> Completion:
    return Completion(text, start_position=-len(typed), display_meta=meaning)


def find_paths(paths: Iterable[str], part: str, *, anywhere: bool) -> list[str]:
    """The paths to offer for a part of one: those that begin with it, then files whose names do, then others.

    Where only beginnings count, a path is offered up to its next folder.
    """
    wanted = part.lower()
    if not anywhere:
        return _next_steps((path for path in paths if path.startswith(part)), part)
    ranked: tuple[list[str], list[str], list[str]] = ([], [], [])
    for path in paths:
        lowered = path.lower()
        if wanted not in lowered:
            continue
        rank = 0 if lowered.startswith(wanted) else 1 if f"/{wanted}" in lowered else 2
        if len(ranked[rank]) < MOST_OFFERED:
            ranked[rank].append(path)
    return [path for group in ranked for path in group][:MOST_OFFERED]


def _next_steps(paths: Iterable[str], part: str) -> list[str]:
    """Each path up to the next folder, as a shell offers them."""
    found: dict[str, None] = {}
    for path in paths:
        rest, slash, _ = path[len(part) :].partition("/")
        found[f"{part}{rest}{slash}"] = None
        if len(found) >= MOST_OFFERED:
            break
    return list(found)
