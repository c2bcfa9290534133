"""What a map costs, counted in files that are parsed; and an index that is damaged, old or shared."""

import asyncio
import json
import os
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from headgate.features.scouts.code_map import CodeMap, MapQuery
from headgate.features.scouts.mapping import LastTree, map_code
from headgate.tree import DiskWorkspace

COUNT = 30


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    for number in range(COUNT):
        (root / f"part{number}.py").write_text(f"def make_part_{number}(): return {number}\n")
    settle(root)
    return root


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / ".headgate" / "map.db"


def settle(root: Path) -> None:
    """As if the files had been changed long ago. The time of the last change of status cannot be set."""
    for path in root.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))


def make(root: Path, index: Path, text: str = "make_part_7") -> CodeMap:
    return asyncio.run(map_code(DiskWorkspace(root), MapQuery(text), index))


def test_only_new_content_is_parsed(repo: Path, index: Path) -> None:
    assert make(repo, index).files_parsed == COUNT
    assert make(repo, index).files_parsed == 0
    (repo / "part3.py").write_text("def changed(): pass\n")
    assert make(repo, index).files_parsed == 1
    (repo / "part4.py").touch()
    (repo / "part5.py").unlink()
    (repo / "new.py").write_text("def quite_new(): pass\n")
    found = make(repo, index, "quite new")
    assert (found.files_parsed, found.files_seen, found.files[0].path) == (1, COUNT, "new.py")


def test_a_change_within_the_same_tick_and_of_the_same_size_is_seen(repo: Path, index: Path) -> None:
    path = repo / "part1.py"
    path.write_text("def aaaa(): pass\n")
    make(repo, index)
    status = path.stat()
    path.write_text("def bbbb(): pass\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert make(repo, index, "bbbb").files[0].path == "part1.py"


def test_a_further_question_shows_files_as_they_are(repo: Path, index: Path) -> None:
    workspace, last = DiskWorkspace(repo), LastTree()

    def ask(text: str) -> list[tuple[str, ...]]:
        found = asyncio.run(map_code(workspace, MapQuery(text), index, last=last))
        return [(file.path, *(symbol.name for symbol in file.symbols)) for file in found.files]

    assert ask("make_part_7")[0] == ("part7.py", "make_part_7")
    assert ask("make_part_8")[0] == ("part8.py", "make_part_8")
    (repo / "part8.py").write_text("def make_part_8(): pass\n\n\ndef more(): pass\n")
    assert ask("make_part_8")[0] == ("part8.py", "make_part_8", "more")
    (repo / "other.py").write_text("def quite_new(): pass\n")
    assert ask("quite_new")[0] == ("other.py", "quite_new")
    (repo / "other.py").unlink()
    assert "other.py" not in [path for path, *_ in ask("quite_new make_part_9")]


def test_going_back_to_older_content_costs_nothing(repo: Path, index: Path) -> None:
    make(repo, index)
    old = (repo / "part1.py").read_text()
    for text, parsed in (("x = 1\n", 1), (old, 0), ("x = 1\n", 0)):
        (repo / "part1.py").write_text(text)
        assert make(repo, index).files_parsed == parsed


def test_an_index_of_old_files_is_made_again(repo: Path, index: Path, tmp_path: Path) -> None:
    make(repo, index)
    for number in range(600):
        (repo / f"old{number}.py").write_text(f"def old_{number}(): pass\n")
    assert make(repo, index).files_parsed == 600
    for number in range(600):
        (repo / f"old{number}.py").unlink()
    found = make(repo, index)
    assert (found.files_parsed, found.files[0].path) == (COUNT, "part7.py")
    with sqlite3.connect(index) as db:
        assert db.execute("SELECT count(*) FROM files").fetchone() == (COUNT,)


def execute(index: Path, statements: str) -> None:
    with closing(sqlite3.connect(index)) as db:
        db.executescript(statements)


def replace_outline(index: Path, **change: object) -> None:
    with closing(sqlite3.connect(index)) as db, db:
        (kept,) = db.execute("SELECT outline FROM files WHERE path = ?", (b"part7.py",)).fetchone()
        planted = zlib.compress(json.dumps({**json.loads(zlib.decompress(kept)), **change}).encode())
        db.execute("UPDATE files SET outline = ? WHERE path = ?", (planted, b"part7.py"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no database": lambda index: index.write_bytes(b"something else entirely" * 100),
    "cut off": lambda index: index.write_bytes(index.read_bytes()[:3000]),
    "bad pages": lambda index: index.write_bytes(index.read_bytes()[:4096].ljust(40_000, b"\xff")),
    "bad lists": lambda index: execute(index, "UPDATE terms_data SET block = x'ffffffffffff'"),
    "bad outline": lambda index: execute(index, "UPDATE files SET outline = x'00'"),
    "other version": lambda index: execute(index, "PRAGMA user_version = 99"),
    "no terms": lambda index: execute(index, "DROP TABLE terms"),
    "a view": lambda index: execute(index, "DROP TABLE terms; CREATE VIEW terms AS SELECT 0 AS text"),
    "a trigger": lambda index: execute(
        index, "CREATE TRIGGER t AFTER INSERT ON files BEGIN DELETE FROM files; END"
    ),
    "a path of text": lambda index: execute(index, "UPDATE files SET path = 'part7.py' || id"),
    "a size below 0": lambda index: execute(index, "UPDATE files SET size = -size"),
    "a size of text": lambda index: execute(index, "UPDATE files SET size = 'many'"),
    "an outline of text": lambda index: execute(index, "UPDATE files SET outline = 'text'"),
    "no purpose": lambda index: replace_outline(index, purpose=None),
    "lines of text": lambda index: replace_outline(index, lines="many"),
    "words in a list": lambda index: replace_outline(index, words=[]),
    "a count below 0": lambda index: replace_outline(index, references={"make_part_7": -4}),
    "a number for a module": lambda index: replace_outline(index, imports=[3]),
    "a number for a signature": lambda index: replace_outline(
        index, definitions=[{"kind": "function", "name": "f", "signature": 1, "first": 1, "last": 2}]
    ),
    "far too much": lambda index: replace_outline(index, purpose="x" * 30_000_000),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_an_index_that_is_damaged_or_of_somebody_else_is_made_again(
    repo: Path, index: Path, damage: Callable[[Path], object]
) -> None:
    whole = make(repo, index)
    damage(index)
    again = make(repo, index)
    assert (again.files, again.files_parsed) == (whole.files, COUNT)
    assert make(repo, index).files_parsed == 0


@pytest.mark.parametrize("what", ["a folder", "a link", "a file in place of its folder"])
def test_without_a_place_for_the_index_there_is_a_map(repo: Path, index: Path, what: str) -> None:
    if what == "a file in place of its folder":
        index.parent.write_text("")
    else:
        index.parent.mkdir()
        index.mkdir() if what == "a folder" else index.symlink_to(repo / "part0.py")
    before = (repo / "part0.py").read_bytes()
    assert make(repo, index).files[0].path == "part7.py"
    assert (repo / "part0.py").read_bytes() == before


def test_several_at_once_agree(repo: Path, index: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: make(repo, index), range(4)))
    assert {one.files for one in found} == {make(repo, index).files}
    assert make(repo, index).files_parsed == 0
