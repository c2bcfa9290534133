"""Real cases written by other people, read from where they are; a test that needs them is skipped without."""

import os
from pathlib import Path

import pytest

CASES = Path(os.environ.get("HEADGATE_CASES", Path(__file__).parents[2] / "shared" / "cases"))


def case_path(*parts: str) -> Path:
    """The path of a case file; skips the calling test (or module) where the folder is absent."""
    path = CASES.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"needs the shared cases: {'/'.join(parts)} is not in HEADGATE_CASES", allow_module_level=True
        )
    return path
