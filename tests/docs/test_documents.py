"""The documents: every example in them works, and every command in the README runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.config import FlowNames, load_config, load_flow
from headgate.engine import CHECK_SPECS, SPECS
from headgate.engine.tool_list import TOOLS
from headgate.features.recipes.feature import load_recipes
from headgate.models import ScriptedModel
from headgate.tools import stage_done_tool
from launcher import is_plain, run_headgate

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
SCRIPT = """
- calls: [{write_file: {path: new.txt, content: x}}]
- calls: [{stage_done: {summary: Wrote it.}}]
"""


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


YAML = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(blocks(document, "yaml"))
]


def test_there_are_examples() -> None:
    assert len(YAML) >= 4


@pytest.mark.parametrize("block", YAML)
def test_an_example_is_valid(block: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(block)
    if block.startswith("replies:"):
        assert ScriptedModel.load(file).leftover()
    elif "token_budget:" in block:
        (tmp_path / "house-rules.md").write_text("Be brief.\n")
        assert load_recipes(tmp_path, ["."], FlowNames(SPECS, CHECK_SPECS))["agent"].stages
    elif "\nstages:" in block:
        assert load_flow(str(file), tmp_path, FlowNames(SPECS, CHECK_SPECS)).stages
    else:
        # What a repository's file may not say is an example of the user's own.
        users_own = re.search(
            r"^(commands|approvals|sandbox|allow_\w+|shell_env|research|scouts):", block, re.MULTILINE
        )
        if users_own:
            file = file.rename(tmp_path / "user.yaml")
            (tmp_path / "agent.yaml").write_text("model: openai/gpt-4o\n")
        loaded = load_config(tmp_path, environ={}, flags={}, user_file=tmp_path / "user.yaml")
        assert loaded.config.model_settings().model


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    (path / "script.yaml").write_text(SCRIPT)
    (path / "flat.yaml").write_text("name: f\nstages: [{id: work}]\n")
    return path


def test_the_first_commands_run(repo: Path) -> None:
    shell = next(block for block in blocks(ROOT / "README.md", "") if "headgate " in block)
    commands = [line.partition("#")[0].strip() for line in shell.splitlines() if line.startswith("headgate")]
    assert [command.split()[1] for command in commands] == ["init", "doctor", "run"]
    (described,) = (block for block in blocks(ROOT / "docs" / "usage.md", "") if "headgate run -" in block)
    for command in (*commands, described):
        done = sh(command, repo)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert "migrations/**" in sh("headgate show", repo).stdout


def sh(command: str, repo: Path) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(repo.parent),
        "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],
        "HEADGATE_MODEL": "script:script.yaml",
    }
    if command.startswith("headgate run"):
        command = command.replace("headgate run", "headgate run --flow flat.yaml", 1)
    if is_plain(command):
        return run_headgate(shlex.split(command)[1:], repo, environment)
    return subprocess.run(
        ["sh", "-c", command], cwd=repo, env=environment, capture_output=True, text=True, check=False
    )


def test_every_tool_is_in_the_table() -> None:
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (\w+) \|", page, re.MULTILINE)
    tools = (*TOOLS, stage_done_tool("work"))
    assert rows == [(tool.name, tool.usage(), tool.spec.category) for tool in tools]


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_make_knows_what_the_documents_name() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        name
        for document in DOCUMENTS
        for name in re.findall(r"(?:`|^)make ([\w-]+)", document.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"demo", "test"} <= named
    assert {name for name in named if f"\n{name}:" not in makefile} == set()
