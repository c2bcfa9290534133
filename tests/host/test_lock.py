"""The repository's lock, between real processes."""

import os
import subprocess
import sys
from pathlib import Path

from headgate.host.lock import FileLock


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
from headgate.host.lock import FileLock
assert FileLock(pathlib.Path({str(path)!r})).try_acquire()
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    lock = FileLock(path)
    assert lock.try_acquire()
    lock.release()
