"""Whoever reads a log knows the events of every feature, without what takes part in a run."""

import subprocess
import sys
from pathlib import Path

import headgate

FEATURES = Path(headgate.__file__).parent / "features"
LOADED = (
    "import sys, headgate.features; print(*[name for name in sys.modules if 'headgate.features.' in name])"
)


def test_the_events_of_all_features_are_known() -> None:
    shown = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    loaded = {name for name in shown.stdout.split() if name.endswith((".events", ".feature"))}
    assert loaded == {f"headgate.features.{path.parent.name}.events" for path in FEATURES.glob("*/events.py")}
