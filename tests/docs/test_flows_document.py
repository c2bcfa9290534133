"""docs/flows.md: every flow in it is checked and run to its end, every command is run.

An example is a comment `example: NAME` before a block of YAML. It is saved as NAME.yaml (`agent` is the
configuration), and played with the replies in tests/docs/flows/NAME.yaml. A console block holds commands
after `$ ` and their output, in which a line `...` stands for any lines.
"""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.config import load_config
from headgate.core import FLAT_NAMES, Constraints, Options
from headgate.engine import Engine
from headgate.log import Report
from headgate.models import ScriptedModel
from launcher import is_plain, run_headgate

PAGE = (Path(__file__).parents[2] / "docs" / "flows.md").read_text(encoding="utf-8")
SCRIPTS = Path(__file__).parent / "flows"
EXAMPLES = dict(re.findall(r"^<!-- example: (\S+) -->\n```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
CONSOLES = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TASK = "Add the tax in shop.py."
CONFIG = "verification: {steps: [{name: tests, command: sh test_shop.sh}]}\n"
FILES = {
    "shop.py": "def total(price, tax):\n    return price\n",
    "test_shop.sh": 'grep -q "price + tax" shop.py || { echo "the tax is missing"; exit 1; }\n',
    "README.md": "A shop.\n",
    "agent.yaml": CONFIG,
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    flows = {f"{name}.yaml": text for name, text in EXAMPLES.items() if name != "agent"}
    for name, text in {**FILES, **flows}.items():
        (path / name).write_text(text)
    return path


def test_every_block_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```yaml\n")
    assert {path.stem for path in SCRIPTS.glob("*.yaml")} == set(EXAMPLES)
    assert [text.split()[0] for text in EXAMPLES.values()].count("name:") == len(EXAMPLES) - 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_to_its_end(name: str, repo: Path) -> None:
    if name == "agent":
        (repo / "agent.yaml").write_text(EXAMPLES[name])
        flow = None
    else:
        flow = f"{name}.yaml"
        assert sh(f"headgate flows check {flow}", repo).startswith(f"{flow}: ok, ")
    model = ScriptedModel.load(SCRIPTS / f"{name}.yaml")
    report = play(repo, flow, model)
    model.check_finished()
    assert (report.state, report.verified) == ("SUCCESS", True), report
    assert "shop.py" in report.files_changed


def play(repo: Path, flow: str | None, model: ScriptedModel) -> Report:
    loaded = load_config(repo, environ={}, flags={}, user_file=repo.parent / "none.yaml")
    engine = Engine.open(repo, loaded, models={None: model})
    try:
        return asyncio.run(engine.run(engine.submit(TASK, Constraints(), Options(flow=flow))))
    finally:
        engine.store.close()


def test_the_commands_print_what_the_page_says(repo: Path) -> None:
    (repo / "agent.yaml").write_text(EXAMPLES["agent"])
    assert len(CONSOLES) >= 4
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(CONSOLES), re.MULTILINE):
        printed = sh(command, repo)
        pattern = re.escape(expected).replace(re.escape("...\n"), "(?:.*\n)*?")
        assert re.fullmatch(pattern, printed), f"$ {command}\n{printed}"


def sh(command: str, repo: Path) -> str:
    """What a command prints, on either stream."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(repo.parent),
        "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],
    }
    if is_plain(command):
        return run_headgate(shlex.split(command)[1:], repo, environment, joined=True).stdout
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=repo,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_every_flat_name_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+): \{(\w+): \.\.\.\}` \|$", PAGE, re.MULTILINE)
    assert {name: (knob, field) for name, knob, field in rows} == FLAT_NAMES
