"""On a disk that is really full, what cannot be put back is said, and put back once there is room."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import subprocess, sys
from pathlib import Path
from headgate.guard import ProtectedTree, Rule
from headgate.tree import Snapshots

root, store = Path(sys.argv[1]), Path(sys.argv[2])
kept = root / "kept.bin"
kept.write_bytes(b"k" * 500_000)

def protection():
    rule = Rule("kept", "it is protected", lambda path: path == "kept.bin")
    return ProtectedTree(Snapshots(root, kept=store / "objects"), [rule], store / "b/c")

subprocess.run(["git", "init", "-q", "--separate-git-dir", str(store / "git"), str(root)], check=True)

files = protection()
assert files.begin() == ()
subprocess.run("rm kept.bin; cat /dev/zero > fill", shell=True, cwd=root, stderr=subprocess.DEVNULL)
told = [one.sentence() for one in files.check_and_restore()]
print(told, [one.problem for one in files.begin()], [one.problem for one in protection().check_and_restore()])
(root / "fill").unlink()
print([one.problem for one in protection().check_and_restore()], kept.read_bytes() == b"k" * 500_000)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    (tmp_path / "root").mkdir()
    (tmp_path / "store").mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$3" -c "$4" "$1" "$2"'
    places = [str(tmp_path / "root"), str(tmp_path / "store"), sys.executable, SCRIPT]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "-", *places], capture_output=True, text=True, check=False
    )
    problem = "no space left on device"
    told = f"Could not be restored: kept.bin (it is protected; the command had deleted it, and {problem})."
    assert done.stdout.splitlines() == [
        f"{[told]} {[problem]} {[problem]}",
        "[''] True",
    ], done.stderr
