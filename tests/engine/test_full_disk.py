"""On a disk that is really full, a task still ends with a report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.log import Folder

MOUNTED = """
set -e
mount -t tmpfs -o size=3m none "$1"
cd "$1"; git init -q .
printf 'task_flow_mode: flat\\nmodel: script:script.yaml\\n' > agent.yaml
printf -- '- calls: [{shell: {command: "cat /dev/zero > fill; true"}}]\\n- text: Done.\\n' > script.yaml
set +e
"$2" -m headgate run "Fill it."; echo "exit $?"
cat .headgate/task_reports.jsonl; echo
"$2" -m headgate tasks --json
"""


def test_a_task_on_a_full_disk_ends_with_a_report(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    command = ["unshare", "-rm", "bash", "-c", MOUNTED, "-", str(tmp_path), sys.executable]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    at = lines.index("exit 3")
    assert json.loads(lines[at + 1])["state"] == "INFRA_ERROR", done.stderr
    assert [task["state"] for task in json.loads("".join(lines[at + 2 :]))] == ["INFRA_ERROR"]


@pytest.mark.parametrize("name", ["last-words.txt", "ballast", "worker.log"])
def test_a_folder_where_a_file_is_kept_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".headgate" / name).mkdir(parents=True)
    with pytest.raises(ConfigError, match="folders where Headgate keeps files"):
        Folder(tmp_path).create()
