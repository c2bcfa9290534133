"""The code map as data: what is asked, what it may cost, and what is found."""

from headgate.first_use import dataclass
from headgate.reading import FailedTest


@dataclass(frozen=True, slots=True)
class MapQuery:
    """What the map is wanted for."""

    text: str
    """The task, in a person's words."""
    failures: tuple[FailedTest, ...] = ()
    traces: tuple[str, ...] = ()
    """Output with stack traces, or with places such as `src/app.py:12`."""


@dataclass(frozen=True, slots=True)
class MapLimits:
    """What a map may cost, and how much it holds."""

    files: int = 100_000
    """Files of the tree that are looked at, in the order of their paths."""
    file_bytes: int = 400_000
    """A larger file is known by its path alone."""
    seconds: float = 120.0
    """How long files are read and parsed. What is left then is done by the next map."""
    chosen: int = 20
    """Files in the map."""
    symbols: int = 60
    """Symbols of one file."""


@dataclass(frozen=True, slots=True)
class MappedSymbol:
    """A definition in a chosen file."""

    kind: str
    name: str
    """With the definitions around it: `Client.send`."""
    signature: str
    first: int
    last: int
    rank: int
    """Its place among the symbols of the file, 1 for what the task is most likely about."""


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file that the task is likely about."""

    path: str
    language: str
    lines: int
    purpose: str
    why: tuple[str, ...]
    symbols: tuple[MappedSymbol, ...]
    """In the order of the file."""


@dataclass(frozen=True, slots=True)
class FileReference:
    """One chosen file uses what another defines."""

    source: str
    target: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoveringTest:
    """A test file that uses what chosen files define."""

    path: str
    covers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PriorArt:
    """Something that exists already and is named like what the task asks for."""

    path: str
    name: str
    signature: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CodeMap:
    """What is known about a task before its first word to a model."""

    files: tuple[MappedFile, ...] = ()
    """The most likely first."""
    references: tuple[FileReference, ...] = ()
    tests: tuple[CoveringTest, ...] = ()
    entry_points: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    prior_art: tuple[PriorArt, ...] = ()
    files_seen: int = 0
    files_parsed: int = 0
    """Files that were parsed for this map; all others were known."""
    files_left: int = 0
    """Files that were not read because time was up."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of which it says something."""
        shown = (self.files, self.tests, self.prior_art)
        return tuple(one.path for part in shown for one in part)
