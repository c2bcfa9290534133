"""What a map costs, counted in files that are parsed; and an index that is damaged, old or shared."""

import asyncio
import json
import os
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.features.scouts.code_map import CodeMap, MapQuery
from headgate.features.scouts.mapping import map_code
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


def test_going_back_to_older_content_costs_nothing(repo: Path, index: Path) -> None:
    make(repo, index)
    old = (repo / "part1.py").read_text()
    for text, parsed in (("x = 1\n", 1), (old, 0), ("x = 1\n", 0)):
        (repo / "part1.py").write_text(text)
        assert make(repo, index).files_parsed == parsed


def test_many_changes_do_not_make_the_index_grow_without_end(repo: Path, index: Path) -> None:
    for number in range(40):
        (repo / "part1.py").write_text(f"def unicorn_{number}(): pass\n")
        found = make(repo, index, f"unicorn_{number}")
        assert (found.files[0].path, found.files_parsed) == ("part1.py", 1 if number else COUNT)
    with sqlite3.connect(index) as db:
        assert db.execute("SELECT count(*) FROM segments").fetchone()[0] <= 17


def damage(index: Path, how: str) -> None:
    if how == "no database":
        index.write_bytes(b"something else entirely" * 100)
    elif how == "cut off":
        index.write_bytes(index.read_bytes()[:3000])
    elif how == "other version":
        with sqlite3.connect(index) as db:
            db.execute("PRAGMA user_version=99")
    elif how == "other tables":
        with sqlite3.connect(index) as db:
            db.execute("DROP TABLE places")
    elif how == "bad outline":
        with sqlite3.connect(index) as db:
            db.execute("UPDATE files SET outline = x'00'")
    elif how == "bad list":
        with sqlite3.connect(index) as db:
            db.execute("UPDATE places SET files = x'0102'")
    else:
        data = bytearray(index.read_bytes())
        data[4096:] = b"\xff" * (len(data) - 4096)
        index.write_bytes(data)


@pytest.mark.parametrize(
    "how", ["no database", "cut off", "other version", "other tables", "bad outline", "bad list", "bad pages"]
)
def test_a_damaged_or_old_index_is_made_again(repo: Path, index: Path, how: str) -> None:
    whole = make(repo, index)
    damage(index, how)
    again = make(repo, index)
    assert (again.files, again.files_parsed) == (whole.files, COUNT)
    assert make(repo, index).files_parsed == 0


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE dropped", "CREATE VIEW dropped AS SELECT 0 AS files"],
        ["CREATE TRIGGER t AFTER INSERT ON files BEGIN DELETE FROM files; END"],
        ["UPDATE files SET path = 'part7.py'  || id"],
        ["UPDATE files SET size = -size"],
        ["UPDATE files SET size = 'many'"],
        ["UPDATE files SET outline = 'text'"],
        ["UPDATE places SET files = 'texttext'"],
        ["UPDATE sqlite_sequence SET seq = 1 << 60", "DELETE FROM files"],
    ],
)
def test_an_index_that_somebody_else_wrote_is_made_again(
    repo: Path, index: Path, statements: list[str]
) -> None:
    whole = make(repo, index)
    with sqlite3.connect(index) as db:
        for statement in statements:
            db.execute(statement)
    again = make(repo, index)
    assert (again.files, again.files_parsed) == (whole.files, COUNT)


@pytest.mark.parametrize(
    "change",
    [
        {"lines": "many"},
        {"purpose": None},
        {"words": []},
        {"references": {"make_part_7": -4}},
        {"references": {"make_part_7": "x"}},
        {"imports": [3]},
        {"definitions": [{"kind": "function", "name": "f", "signature": 1, "first": 1, "last": 2}]},
        {"definitions": [{"kind": "function", "name": "f", "signature": "f", "first": "1", "last": 2}]},
        {"purpose": "x" * 30_000_000},
    ],
)
def test_outlines_that_somebody_else_wrote_are_made_again(
    repo: Path, index: Path, change: dict[str, object]
) -> None:
    whole = make(repo, index)
    with sqlite3.connect(index) as db:
        (kept,) = db.execute("SELECT outline FROM files WHERE path = ?", (b"part7.py",)).fetchone()
        planted = zlib.compress(json.dumps({**json.loads(zlib.decompress(kept)), **change}).encode())
        db.execute("UPDATE files SET outline = ? WHERE path = ?", (planted, b"part7.py"))
    again = make(repo, index)
    assert (again.files, again.files_parsed) == (whole.files, COUNT)


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
