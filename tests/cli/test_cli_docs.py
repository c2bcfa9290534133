"""Generated pages are up to date: docs/cli.md and docs/configuration.md."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["gen_cli_docs.py", "gen_config_docs.py", "gen_security_docs.py"])
def test_the_page_is_up_to_date(name: str) -> None:
    script = ROOT / "scripts" / name
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
