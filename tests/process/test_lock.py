"""The repository's lock, between real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.process import FileLock
from headgate.regular_files import PlantedFile


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    assert second.holder() == str(os.getpid())
    first.release()
    assert second.try_acquire()
    second.release()
    assert second.holder() == ""


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = f"""
import os, pathlib
from headgate.process.lock import FileLock
assert FileLock(pathlib.Path({str(path)!r})).try_acquire()
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    lock = FileLock(path)
    assert lock.try_acquire()
    lock.release()


def test_somebody_who_only_looks_is_not_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    code = f"""
import pathlib
from headgate.process.lock import FileLock
lock = FileLock(pathlib.Path({str(path)!r}))
print("ready", flush=True)
while True:
    lock.is_held()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as looking:
        assert looking.stdout is not None
        looking.stdout.readline()
        for _ in range(2000):
            lock = FileLock(path)
            assert lock.try_acquire()
            assert not FileLock(path).try_acquire()
            lock.release()
        looking.kill()


def test_a_lock_is_handed_to_a_child_without_being_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock(path)
    assert lock.try_acquire()
    code = f"""
import os, pathlib, sys
from headgate.process.lock import FileLock
lock = FileLock(pathlib.Path({str(path)!r}))
assert lock.adopt(int(sys.argv[1]))
print(lock.holder() == str(os.getpid()), os.get_inheritable(lock.descriptors()[0]), flush=True)
sys.stdin.readline()
lock.release()
"""
    words = [sys.executable, "-c", code, str(lock.descriptors()[0])]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(lock.descriptors()[0],), text=True
    ) as child:
        lock.hand_over()
        assert (lock.held, FileLock(path).try_acquire()) == (False, False)
        assert child.stdout is not None
        assert child.stdout.readline() == "True False\n"
        assert FileLock(path).is_held()
        child.communicate("go\n")
    assert not FileLock(path).is_held()


def test_what_is_not_the_lock_is_not_adopted(tmp_path: Path) -> None:
    path, other = tmp_path / "lock", tmp_path / "other"
    holder = FileLock(path)
    assert holder.try_acquire()
    with other.open("w+b") as file:
        assert not FileLock(path).adopt(file.fileno())
    assert not FileLock(path).adopt(9999)
    holder.release()


@pytest.mark.parametrize("attack", ["remove", "replace", "pipe", "link", "folder"])
def test_a_lock_whose_file_is_gone_still_keeps_others_out(tmp_path: Path, attack: str) -> None:
    own = tmp_path / "git" / "headgate"
    own.mkdir(parents=True)
    path, outside = own / "lock", tmp_path / "outside"
    outside.touch()
    first, second = (FileLock(path, tmp_path / "git") for _ in range(2))
    assert first.try_acquire()
    if attack == "folder":
        own.rename(tmp_path / "moved")
        own.mkdir()
    else:
        path.unlink()
    if attack == "replace":
        path.touch()
    elif attack == "pipe":
        os.mkfifo(path)
    elif attack == "link":
        path.symlink_to(outside)
    assert not second.try_acquire()
    assert first.is_still_held()
    assert (path.read_text(), outside.read_text()) == (str(os.getpid()), "")
    assert not FileLock(path).try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()


def test_a_lock_that_another_process_has_taken_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = FileLock(path), FileLock(path)
    assert first.try_acquire()
    path.unlink()
    assert second.try_acquire()
    assert not first.is_still_held()
    second.release()
    first.release()


def test_a_lock_whose_folder_was_replaced_is_lost(tmp_path: Path) -> None:
    git = tmp_path / "git"
    (git / "headgate").mkdir(parents=True)
    lock = FileLock(git / "headgate" / "lock", git)
    assert lock.try_acquire()
    git.rename(tmp_path / "moved")
    (git / "headgate").mkdir(parents=True)
    assert not lock.is_still_held()
    lock.release()


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    lock = FileLock(tmp_path / "lock")
    assert lock.holder() == ""
    for ask in (lock.try_acquire, lock.is_held):
        with pytest.raises(PlantedFile, match="a pipe or a device"):
            ask()
