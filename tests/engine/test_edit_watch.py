"""Whose changes are whose, as one process tells the next."""

from pathlib import Path

import pytest

from headgate.core import Authorship, VerifyFinished
from headgate.engine.edit_watch import EditWatch
from headgate.tree import Snapshots, git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in ("ours", "mine", "gone"):
        (tmp_path / name).write_text("old\n")
    return tmp_path


def watch_of(snapshots: Snapshots) -> EditWatch:
    return EditWatch(snapshots, tuple, tuple)


def test_what_a_step_changed_is_known_to_the_process_that_goes_on(repo: Path) -> None:
    snapshots = Snapshots(repo)
    start = snapshots.take()
    watch = watch_of(snapshots)
    watch.begin(start)
    (repo / "ours").write_text("formatted\n")
    (repo / "gone").unlink()
    (repo / "mine").write_text("mine\n")
    noticed = watch.note_step(start, snapshots.take(), {"ours", "gone"})
    assert noticed is not None
    assert (noticed.files, noticed.verifying) == (("mine",), True)
    assert watch.notice() is None
    edits = Authorship(is_told=True, known=start)
    edits.apply(noticed)
    edits.apply(VerifyFinished(run_id="r", passed=True, steps=(), known=watch.known()))
    later = Snapshots(repo)
    later.go_on_from(start)
    following = watch_of(later)
    following.resume(edits)
    assert following.notice() is None
    (repo / "ours").write_text("mine\n")
    found = following.notice()
    assert found is not None
    assert found.files == ("ours",)


def test_looking_ahead_takes_no_note(repo: Path) -> None:
    snapshots = Snapshots(repo)
    watch = watch_of(snapshots)
    watch.begin(snapshots.take())
    (repo / "mine").write_text("mine\n")
    for found in (watch.pending(snapshots.take()), watch.pending(snapshots.take()), watch.notice()):
        assert found is not None
        assert found.files == ("mine",)
    assert watch.pending(snapshots.take()) is None


def test_a_command_does_not_write_the_log_that_others_write_meanwhile(repo: Path) -> None:
    snapshots = Snapshots(repo)
    watch = watch_of(snapshots)
    watch.begin(snapshots.take())
    with (repo / "mine").open("a") as log:
        log.write("one\n")
        log.flush()
        assert watch.notice() is not None
        log.write("two\n")
    (repo / "ours").write_text("old\nmore\n")
    tree, others = watch.note_command()
    assert others is not None
    assert others.files == ("mine",)
    assert (snapshots.changed_files(others.before, tree), others.after) == (("mine",), tree)
    (repo / "mine").write_text("another\n")
    assert watch.note_command()[1] is None  # it has not become longer: the command did that
