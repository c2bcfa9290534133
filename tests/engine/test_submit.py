"""What is said at once when a task is submitted that could not be carried out."""

import subprocess
from pathlib import Path

import pytest

from headgate.config import load_config
from headgate.core import Constraints
from headgate.engine import Engine
from headgate.errors import ConfigError


def test_a_cap_on_cost_needs_prices(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    config = (
        "limits: {cost: 1}\nmodel: m\nmodels: {m: {model: openai/x, base_url: 'http://localhost:1/v1'%s}}\n"
    )
    (tmp_path / "agent.yaml").write_text(config % "")
    loaded = load_config(tmp_path, environ={}, flags={}, user_file=tmp_path / "none.yaml")
    engine = Engine.open(tmp_path, loaded)
    try:
        with pytest.raises(ConfigError, match="`limits: cost` needs a `price` for openai/x"):
            engine.submit("Do it.", Constraints())
        (tmp_path / "agent.yaml").write_text(config % ", price: {output: 2}")
        engine.loaded = load_config(tmp_path, environ={}, flags={}, user_file=tmp_path / "none.yaml")
        assert engine.submit("Do it.", Constraints()).id == "t1"
    finally:
        engine.store.close()
