"""The `headgate` command as a real process, away from the user's own configuration."""

import os
import subprocess
import sys
from pathlib import Path


def headgate(repo: Path, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headgate", *args],
        cwd=repo,
        env=environment(repo, **env),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def environment(repo: Path, **env: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    user_file = repo.parent / "config" / "headgate" / "config.yaml"
    if not user_file.exists():  # these tests are about what holds without a sandbox
        user_file.parent.mkdir(parents=True, exist_ok=True)
        user_file.write_text("sandbox: off\napprovals: never\n")
    own = {"HOME": str(repo.parent), "XDG_CONFIG_HOME": str(repo.parent / "config"), "HEADGATE_SERVERS": ""}
    return {**kept, **own, **env}
