"""The outlines of a tree's files in a file of their own, with a full-text index of their words and names.

It is a cache: whatever is wrong with it, it is deleted and made again. A file's outline is kept by its path
and a hash of its content, so that several processes, and several views of one tree, can share the index.
SQLite's FTS5 tells which files have a term, and how often. Its own ranking is not used: it knows neither how
much each word of a task counts nor how long a file is without the names that are listed again (`ranking`).
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from headgate.file_stamps import Stamp
from headgate.outlines import Outline, decode_outline, encode_outline, words_of_name, words_of_text

_BITS = [1 << place for place in range(20)]
"""How often a file has a term, below a million, is told by the columns it is in: 5 times by `4` and `1`."""
_COLUMNS = ", ".join(f'"{bit}"' for bit in _BITS)
VERSION = 3
"""Raised with every change of the tables, or of what an outline holds."""
_TABLES = f"""
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL, digest BLOB NOT NULL, stamp TEXT NOT NULL,
    size INTEGER NOT NULL, outline BLOB NOT NULL, UNIQUE (path, digest)
);
CREATE VIRTUAL TABLE terms USING fts5(
    {_COLUMNS}, content = '', columnsize = 0, detail = column, tokenize = 'ascii'
);
"""
_ADD = f"INSERT INTO terms (rowid, {_COLUMNS}) VALUES (?{', ?' * len(_BITS)})"
_PLACES = "CREATE VIRTUAL TABLE temp.places USING fts5vocab(main, terms, instance)"
_AS_LETTERS = {code: 0xE000 + code for code in range(128) if not (chr(code).islower() or chr(code).isdigit())}
"""For a term as FTS5 is given it: what would separate two words, or be written in lower case, is a letter."""
_COUNTS = "CREATE VIRTUAL TABLE temp.counts USING fts5vocab(main, terms, row)"
_MOST_PARAMETERS = 500
_BUSY_SECONDS = 30.0
_MOST_OUTLINE = 20_000_000
"""Bytes. No file that is parsed has an outline of a tenth of that."""

WORD, PATH_WORD, NAME_WORD, DEFINITION, REFERENCE = "wpndr"
"""What a term in the index is: the first character of each."""


class IndexDamaged(Exception):
    """The file is not an index of this version."""


class KnownFile(NamedTuple):
    """A file whose outline is in the index."""

    id: int
    path: str
    digest: bytes
    mark: str
    """What `mark_of` made of its stamp. Empty where the file was changed just before it was read: its content
    has to be looked at again."""
    size: int
    """How many words it has."""


class NewFile(NamedTuple):
    """A file to be put into the index."""

    path: str
    digest: bytes
    stamp: Stamp | None
    outline: Outline


class OutlineIndex:
    """One connection, to be used by one thread at a time. Without a path it is kept in memory."""

    def __init__(self, path: Path | None) -> None:
        self._db = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA trusted_schema=OFF")
        with self._writing():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version == 0 and tables == 0:
                _make_tables(self._db)
                self._db.execute(f"PRAGMA user_version={VERSION}")
            elif version != VERSION:
                raise IndexDamaged(f"version {version}")
            elif frozenset(self._db.execute(_OBJECTS)) != _known_objects():
                raise IndexDamaged("other tables")  # a view could go on for ever, a trigger change any row
        self._db.execute(_PLACES)
        self._db.execute(_COUNTS)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While it lasts, what other processes write is not seen."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def known(self) -> list[KnownFile]:
        """Every file in the index, also those that are no longer in the tree."""
        rows = self._db.execute("SELECT id, path, digest, stamp, size FROM files")
        return [_known_file(*row) for row in rows]

    def add(self, files: Sequence[NewFile]) -> None:
        """Puts files into the index, except those that another process put there meanwhile."""
        with self._writing():
            for file in files:
                size = sum(file.outline.words.values())
                kept = zlib.compress(encode_outline(file.outline), 1)
                row = (_raw(file.path), file.digest, mark_of(file.stamp), size, kept)
                new = self._db.execute(
                    "INSERT OR IGNORE INTO files (path, digest, stamp, size, outline) VALUES (?, ?, ?, ?, ?)",
                    row,
                )
                if new.rowcount:
                    terms = [(term.translate(_AS_LETTERS), count) for term, count in _terms(file).items()]
                    texts = [" ".join(term for term, count in terms if count & bit) for bit in _BITS]
                    self._db.execute(_ADD, (new.lastrowid, *texts))

    def restamp(self, stamps: Iterable[tuple[int, Stamp | None]]) -> None:
        """Notes that files look different from outside while their content is as it was."""
        rows = [(mark_of(stamp), id) for id, stamp in stamps]
        if rows:
            with self._writing():
                self._db.executemany("UPDATE files SET stamp = ? WHERE id = ?", rows)

    def clear(self) -> None:
        """Forgets everything."""
        with self._writing():
            self._db.execute("DELETE FROM files")
            self._db.execute("INSERT INTO terms (terms) VALUES ('delete-all')")

    def common(self, terms: Iterable[str], most: float) -> set[str]:
        """The terms that more files have: to name these takes much longer than to count them."""
        found: set[str] = set()
        for some in _batches(sorted(set(terms))):
            marks = ",".join("?" * len(some))
            asked = {term.translate(_AS_LETTERS): term for term in some}
            query = f"SELECT term FROM counts WHERE term IN ({marks}) AND doc > ?"
            found.update(asked[term] for (term,) in self._db.execute(query, [*asked, most]))
        return found

    def places(self, terms: Iterable[str]) -> dict[str, dict[int, int]]:
        """For each term the files that have it, and how often."""
        found: dict[str, dict[int, int]] = {}
        for some in _batches(sorted(set(terms))):
            marks = ",".join("?" * len(some))
            asked = {term.translate(_AS_LETTERS): term for term in some}
            query = f"SELECT term, doc, col FROM places WHERE term IN ({marks})"
            for term, id, bit in self._db.execute(query, list(asked)):
                files = found.setdefault(asked[term], {})
                files[id] = files.get(id, 0) + int(bit)
        return found

    def outlines(self, ids: Iterable[int]) -> dict[int, Outline]:
        """The outlines of files."""
        found: dict[int, Outline] = {}
        for some in _batches(list(ids)):
            marks = ",".join("?" * len(some))
            for id, kept in self._db.execute(f"SELECT id, outline FROM files WHERE id IN ({marks})", some):
                try:
                    found[id] = decode_outline(_decompress(kept))
                except (ValueError, TypeError, zlib.error) as error:
                    raise IndexDamaged(str(error)) from error
        return found


_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def _make_tables(db: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        db.execute(statement)


@cache
def _known_objects() -> frozenset[tuple[object, ...]]:
    """The tables of an index, and how they were created."""
    with closing(sqlite3.connect(":memory:")) as db:
        _make_tables(db)
        return frozenset(db.execute(_OBJECTS))


def _known_file(id: int, path: object, digest: object, mark: object, size: object) -> KnownFile:
    if not isinstance(path, bytes) or not isinstance(digest, bytes) or not isinstance(mark, str):
        raise IndexDamaged("a file of another kind")
    if not isinstance(size, int) or size < 0:
        raise IndexDamaged("an impossible size")
    return KnownFile(id, _path(path), digest, mark, size)


def _decompress(kept: bytes) -> bytes:
    """What was compressed, if it is no larger than an outline can be."""
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(kept, _MOST_OUTLINE)
    if unpacking.unconsumed_tail:
        raise ValueError("no outline is that large")
    return data


_Item = TypeVar("_Item")


def _batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    return (items[start : start + _MOST_PARAMETERS] for start in range(0, len(items), _MOST_PARAMETERS))


def _terms(file: NewFile) -> dict[str, int]:
    """Everything under which a file can be found."""
    outline = file.outline
    terms = {WORD + word: count for word, count in outline.words.items()}
    terms |= {PATH_WORD + word: count for word, count in words_of_text(file.path).items()}
    terms |= {REFERENCE + name: count for name, count in outline.references.items()}
    for definition in outline.definitions:
        name = short_name(definition.name)
        terms[DEFINITION + name] = terms.get(DEFINITION + name, 0) + 1
        for word in words_of_name(name):
            terms[NAME_WORD + word] = terms.get(NAME_WORD + word, 0) + 1
    return {term.encode("utf-8", "replace").decode(): count for term, count in terms.items()}


def short_name(name: str) -> str:
    """The last part of a name such as `Outer::method`, by which it is used."""
    return name.rpartition("::")[2].rpartition(".")[2] or name


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _path(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def mark_of(stamp: Stamp | None) -> str:
    """A stamp as the index keeps it."""
    return "" if stamp is None else " ".join(map(str, stamp))
