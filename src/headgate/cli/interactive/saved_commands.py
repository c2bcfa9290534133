"""Commands of a repository or of a user: text files whose content is sent as a task.

Such a command can do nothing that a typed task cannot do. A repository's files may have been written by
anybody, so whoever uses one sees its text before it is sent for the first time.
"""

import re
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path

from headgate.core import COMMANDS_FOLDER, show_path
from headgate.features.skills import SkillInvalid, read_front_matter
from headgate.first_use import dataclass, regex
from headgate.regular_files import OwnFolder
from headgate.tree import read_regular

ENDING = ".md"
MOST_BYTES, MOST_COMMANDS = 100_000, 200
_NAME = regex(r"[a-z0-9][a-z0-9_-]{0,40}")
_ARGUMENT = regex(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


@dataclass(frozen=True, slots=True)
class SavedCommand:
    """A command as its file has it."""

    name: str
    description: str
    body: str
    file: str
    """Its path, as people know it."""
    by_repository: bool

    @property
    def digest(self) -> str:
        """Changes with the text that is sent."""
        return sha256(self.body.encode()).hexdigest()

    def fill(self, arguments: str) -> str:
        """The task: `$ARGUMENTS` is all that was typed behind the name, `$1` to `$9` its words.

        Arguments that the text has no place for stand at its end.
        """
        words = arguments.split()

        def value(found: re.Match[str]) -> str:
            if found[1] is None:
                return arguments
            number = int(found[1])
            return words[number - 1] if number <= len(words) else ""

        text, places = _ARGUMENT.subn(value, self.body)
        return text.strip() if places or not arguments else f"{text.strip()}\n\n{arguments}"


@dataclass(frozen=True, slots=True)
class SavedCommands:
    """The commands that were found, by name, and what is wrong with the other files, a sentence each."""

    found: dict[str, SavedCommand]
    problems: tuple[str, ...] = ()


def load_commands(repo: Path, of_user: Path, taken: Collection[str]) -> SavedCommands:
    """The commands of a user's folder and of a repository, whose own count if both have one of a name.

    The names in `taken` are built in, and stay what they are.
    """
    found: dict[str, SavedCommand] = {}
    problems: list[str] = []
    for folder, shown, by_repository in ((of_user, str(of_user), False), (repo / COMMANDS_FOLDER, "", True)):
        for path in _files(folder):
            file = f"{shown or COMMANDS_FOLDER}/{show_path(path.name)}"
            name = path.name.removesuffix(ENDING)
            if not _NAME.fullmatch(name):
                problems.append(f"{file} is not a command name: use lower-case letters, digits, - and _.")
            elif name in taken:
                problems.append(f"{file} is left out: /{name} is built in. Give the file another name.")
            else:
                try:
                    description, body = _read(path, by_repository)
                    found[name] = SavedCommand(name, description, body, file, by_repository)
                except ValueError as error:
                    problems.append(f"{file} {error}.")
                except OSError as error:
                    problems.append(f"{file} cannot be read: {error.strerror or error}.")
    return SavedCommands(dict(sorted(found.items())), tuple(problems))


def _files(folder: Path) -> Iterator[Path]:
    try:
        if folder.is_symlink():
            return
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(ENDING))
    except OSError:
        return  # there is none
    yield from (folder / name for name in names[:MOST_COMMANDS])


def _read(path: Path, by_repository: bool) -> tuple[str, str]:
    """The description and the text. ValueError with the end of a sentence about the file, if it has none.

    A user's own files may be links; those of a repository would lead elsewhere.
    """
    most = MOST_BYTES + 1
    data = OwnFolder(path.parents[1]).read(path, most) if by_repository else read_regular(path, most)
    if len(data) > MOST_BYTES:
        raise ValueError(f"is larger than {MOST_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    values: dict[str, str] = {}
    body = text.removeprefix("\ufeff")
    if body.startswith("---"):
        try:
            values, body = read_front_matter(body)
        except SkillInvalid as error:
            raise ValueError(str(error)) from None
    if not body.strip():
        raise ValueError("is empty")
    first = next(line for line in body.splitlines() if line.strip())
    return " ".join(values.get("description", first).split())[:100], body
