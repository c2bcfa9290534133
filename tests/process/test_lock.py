"""The repository's lock, between real processes."""

import os
import subprocess
import sys
from pathlib import Path

from headgate.process.lock import FileLock


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
print(lock.holder() == str(os.getpid()), os.get_inheritable(lock.fileno()), flush=True)
sys.stdin.readline()
lock.release()
"""
    words = [sys.executable, "-c", code, str(lock.fileno())]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(lock.fileno(),), text=True
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
