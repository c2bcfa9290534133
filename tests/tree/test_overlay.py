"""An overlay answers as the disk would, and the disk stays as it is."""

import os
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Access, Denial, show_path
from headgate.errors import StoreError, ToolDenied, ToolError, ToolFailed
from headgate.tree import (
    DirectoryEntry,
    DiskWorkspace,
    File,
    FileChange,
    OverlayWorkspace,
    ProposedChange,
    Workspace,
    decode_changes,
    encode_changes,
)

LATIN = os.fsdecode(b"latin-\xe9")
FILES = {
    "a.py": b"a\n",
    "src/b.py": b"b\n",
    "src/deep/c.py": b"c\n",
    "bin/tool": b"#!/bin/sh\n",
    "data.bin": b"\0\xff\0",
    ".gitignore": b"*.log\nbuild/\n",
    "build/out.txt": b"out\n",
    "keep/fixed.py": b"fixed\n",
    f"odd/{LATIN}": b"x\n",
    'odd/quo"te': b"x\n",
}


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with content and mode."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o7777)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def build(root: Path) -> Path:
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "bin/tool").chmod(0o755)
    (root / "link").symlink_to("src/b.py")
    (root / "linked").symlink_to("src")
    (root / "dangling").symlink_to("src/new.py")
    return root


def keep_out(access: Access, /) -> Denial | None:
    """A boundary for writing, and a secret that is not to be read."""
    if access.act == "write" and access.target.startswith("keep/"):
        return Denial(f"{access.target} is out of bounds.")
    return Denial("Secret.") if access.target.endswith("secret") else None


@pytest.fixture
def overlay(tmp_path: Path) -> OverlayWorkspace:
    return OverlayWorkspace(DiskWorkspace(build(tmp_path), [keep_out], max_bytes=1000))


def test_what_was_written_is_read_and_the_disk_is_as_it_was(overlay: OverlayWorkspace) -> None:
    before = snapshot(overlay.root)
    overlay.apply(
        [
            FileChange("link", b"b\n", b"B\n"),
            FileChange("new/x.py", None, b"x\n", 0o755),
            FileChange("a.py", b"a\n", None),
            FileChange("bin/tool", b"#!/bin/sh\n", b"#!/bin/bash\n"),
        ]
    )
    assert overlay.read("linked/b.py") == File("src/b.py", b"B\n", 0o644)
    assert overlay.read("new/x.py") == File("new/x.py", b"x\n", 0o755)
    assert overlay.read("bin/tool") == File("bin/tool", b"#!/bin/bash\n", 0o755)
    assert [overlay.exists(path) for path in ("new", "new/x.py", "a.py", "src")] == [True, True, False, True]
    assert overlay.list("new") == [DirectoryEntry("x.py", "file", 2)]
    assert snapshot(overlay.root) == before


def test_a_deleted_file_does_not_exist_and_others_are_suggested(overlay: OverlayWorkspace) -> None:
    overlay.apply([FileChange("a.py", b"a\n", None), FileChange("lib/a.py", None, b"a\n")])
    with pytest.raises(ToolFailed, match=r"^a\.py does not exist\. Did you mean lib/a\.py\?$"):
        overlay.read("a.py")


def test_the_size_limit_holds_for_what_was_written(overlay: OverlayWorkspace) -> None:
    overlay.apply([FileChange("large", None, b"x" * 1001)])
    with pytest.raises(ToolFailed, match=r"^large is too large to read \(1,001 bytes"):
        overlay.read("large")


def test_an_ignore_file_that_is_not_on_disk_counts(overlay: OverlayWorkspace) -> None:
    assert "src/deep/c.py" in overlay.files()
    overlay.apply(
        [
            FileChange("src/.gitignore", None, b"deep\n"),
            FileChange("x.log", None, b"x"),
            FileChange("y", None, b""),
        ]
    )
    expected = [".gitignore", "a.py", "bin/tool", "data.bin", "keep/fixed.py"]
    expected += [f"odd/{LATIN}", 'odd/quo"te', "src/.gitignore", "src/b.py", "y"]
    assert list(overlay.files()) == expected


def test_all_or_nothing(overlay: OverlayWorkspace) -> None:
    good = FileChange("a.py", b"a\n", b"A\n")
    for bad, error in (
        (FileChange("keep/fixed.py", b"fixed\n", b"x"), ToolDenied),
        (FileChange(".git/config", None, b"x"), ToolDenied),
        (FileChange("../x", None, b"x"), ToolDenied),
        (FileChange("src/b.py", b"other", b"x"), ToolFailed),
        (FileChange("a.py/x", None, b"x"), ToolFailed),
        (FileChange("src", None, b"x"), ToolFailed),
        (FileChange("no/" + "n" * 300, None, b"x"), ToolFailed),
    ):
        with pytest.raises(error):
            overlay.apply([good, bad])
    assert overlay.changes() == ()
    assert overlay.read("a.py").data == b"a\n"


def test_changes_go_from_the_disk_to_the_last_state(overlay: OverlayWorkspace) -> None:
    overlay.apply([FileChange("a.py", b"a\n", b"1"), FileChange("src/b.py", b"b\n", b"1")])
    overlay.apply([FileChange("a.py", b"1", b"2"), FileChange("src/b.py", b"1", b"b\n")])
    overlay.apply([FileChange("n", None, b"n"), FileChange("bin/tool", b"#!/bin/sh\n", None)])
    overlay.apply([FileChange("n", b"n", None), FileChange("m", None, b"m")])
    overlay.apply([FileChange("bin/tool", None, b"#!/bin/sh\n")])
    overlay.apply([FileChange("data.bin", FILES["data.bin"], FILES["data.bin"], 0o755)])
    assert overlay.changes() == (
        ProposedChange("a.py", b"a\n", b"2", None, 0o644),
        ProposedChange("bin/tool", b"#!/bin/sh\n", b"#!/bin/sh\n", 0o644, 0o755),
        ProposedChange("data.bin", FILES["data.bin"], FILES["data.bin"], 0o755, 0o644),
        ProposedChange("m", None, b"m", None, None),
    )
    assert [change.after_mode for change in overlay.changes()] == [0o644, 0o644, 0o755, 0o644]


def test_hashes_are_of_what_a_reader_sees(overlay: OverlayWorkspace) -> None:
    overlay.apply([FileChange(f"odd/{LATIN}", b"x\n", b"y\n"), FileChange("a.py", b"a\n", None)])
    assert [
        overlay.hash_of(show_path(path)) for path in (f"odd/{LATIN}", "src/b.py", "a.py", "src", "no")
    ] == [
        sha256(b"y\n").hexdigest(),
        sha256(b"b\n").hexdigest(),
        None,
        None,
        None,
    ]


def test_what_was_accepted_before_is_remembered_though_the_disk_moved_on(overlay: OverlayWorkspace) -> None:
    rounds = [
        [FileChange("a.py", b"a\n", b"1"), FileChange("bin/tool", b"#!/bin/sh\n", None)],
        [FileChange("bin/tool/x", None, b"x"), FileChange("a.py", b"1", b"2", 0o755)],
    ]
    again = OverlayWorkspace(DiskWorkspace(overlay.root))
    for changes in rounds:
        overlay.apply(changes)
    (overlay.root / "a.py").write_bytes(b"someone else's\n")
    for changes in rounds:
        again.remember(decode_changes(encode_changes(changes)))
    assert again.changes() == overlay.changes()
    assert again.read("a.py") == File("a.py", b"2", 0o755)
    assert again.list("bin/tool") == [DirectoryEntry("x", "file", 1)]


NAMES = st.sampled_from(
    [
        *FILES,
        *(
            "link",
            "linked",
            "linked/b.py",
            "linked/deep",
            "dangling",
            "src",
            "src/deep",
            "a.py/sub",
            "a.py/sub/x",
        ),
        *("new", "new/x.py", "new/deep/y.py", "new/../a.py", "src/new.py", "src/deep", "bin/tool/x", "x.log"),
        *(
            "build/new.txt",
            "secret",
            "src/secret",
            "./a.py",
            "new/x.py/../z",
            "a.py/..",
            "",
            "../out",
            ".git/x",
        ),
        *(
            "new/" + "n" * 300,
            "n" * 300,
            "odd/tab\tnew\nline",
            "odd/ä",
            "keep/other.py",
            "src/.gitignore",
            "a",
        ),
    ]
)
CONTENTS = st.one_of(st.sampled_from([b"", b"x\n", b"deep\n*.py\n", b"\0\xfe", b"y" * 1500]), st.none())
MODES = st.sampled_from([None, None, 0o644, 0o755])
WRITES = st.lists(st.tuples(NAMES, CONTENTS, MODES, st.booleans()), min_size=1, max_size=3)


def answer(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except ToolError as error:
        return type(error), str(error)


def write(workspace: Workspace, wanted: Sequence[tuple[str, bytes | None, int | None, bool]]) -> object:
    """What became of a change of several files, some of which were not read before."""
    changes = []
    for path, after, mode, is_read in wanted:
        try:
            before = workspace.read(path).data if is_read else None
        except ToolError:
            before = None
        changes.append(FileChange(path, before, after, mode))
    return answer(lambda: workspace.apply(changes))


def view(workspace: Workspace, path: str) -> list[object]:
    shown = show_path(path) if path else ""
    return [
        answer(lambda: workspace.locate(shown)),
        answer(lambda: workspace.read(shown)),
        answer(lambda: workspace.exists(shown)),
        answer(lambda: workspace.list(shown)),
        answer(lambda: list(workspace.files(shown))),
    ]


@settings(max_examples=40)
@given(st.lists(st.tuples(WRITES, NAMES), max_size=8))
def test_an_overlay_is_like_the_disk(
    steps: list[tuple[list[tuple[str, bytes | None, int | None, bool]], str]],
) -> None:
    with TemporaryDirectory() as folder:
        first = build(Path(folder, "first"))
        second = Path(folder, "second")
        shutil.copytree(first, second, symlinks=True)
        untouched = snapshot(second)
        disk = DiskWorkspace(first, [keep_out], max_bytes=1000)
        overlay = OverlayWorkspace(DiskWorkspace(second, [keep_out], max_bytes=1000))
        for wanted, looked_at in steps:
            assert write(overlay, wanted) == write(disk, wanted)
            for path in (looked_at, "", *(path for path, *_ in wanted)):
                assert view(overlay, path) == view(disk, path)
        for path, (data, _) in snapshot(first).items():
            assert overlay.hash_of(show_path(path)) == sha256(data).hexdigest()
        assert snapshot(second) == untouched
        DiskWorkspace(second).apply(decode_changes(encode_changes(overlay.changes())))
        assert snapshot(second) == snapshot(first)


PATHS = st.binary(min_size=1, max_size=8).filter(lambda raw: b"\0" not in raw).map(os.fsdecode)
DATA = st.one_of(st.none(), st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))


@given(st.lists(st.builds(FileChange, PATHS, DATA, DATA, st.one_of(st.none(), st.integers(0, 0o7777)))))
def test_changes_survive_the_log(changes: list[FileChange]) -> None:
    text = encode_changes(changes)
    assert text.encode()
    assert decode_changes(text) == tuple(changes)


def test_text_stays_text_in_the_log() -> None:
    assert encode_changes([FileChange("ä", "grün\n".encode(), b"\xff", 0o755)]) == (
        '[{"path":"ä","before":"grün\\n","after":{"base64":"/w=="},"mode":493}]'
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[{"path": "a"}]', '[{"path":"a","before":1,"after":2,"mode":0}]']
)
def test_what_is_no_record_of_changes_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        decode_changes(text)
