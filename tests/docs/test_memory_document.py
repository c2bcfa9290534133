"""docs/memory-and-skills.md: its flow runs, its commands print what it says, its figures are true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.config import SkillSettings
from headgate.core import TOOL_ALIASES
from headgate.engine.tool_list import TOOLS
from headgate.features.memory import FOUND_CHARS, MEMORY_CHARS, MEMORY_TAGS, MOST_FOUND, MOST_MEMORIES
from headgate.features.skills import DESCRIPTION_CHARS, NAME_CHARS, SKILL_BYTES, read_skill

PAGE = (Path(__file__).parents[2] / "docs" / "memory-and-skills.md").read_text(encoding="utf-8")
SCRIPT = """
- calls: [{memory_search: {query: tests}}, {stage_done: {stage: work, summary: Looked.}}]
- calls:
    - memory_save: {text: The tests need a running PostgreSQL., tags: [tests]}
    - make_skill: {name: make-releases, description: Makes a release., source: Tag it.}
    - stage_done: {stage: keep, summary: Kept.}
"""


def block(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def sh(command: str, repo: Path) -> str:
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(repo.parent),
        "XDG_CONFIG_HOME": str(repo.parent / "config"),
        "HEADGATE_MODEL": "script:script.yaml",
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        ["sh", "-c", command], cwd=repo, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    (path / "skills" / "broken").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    (path / "skills" / "broken" / "SKILL.md").write_text("Do it.\n")
    (path / "script.yaml").write_text(SCRIPT)
    (path / "notes.yaml").write_text(block("yaml")[0])
    return path


def test_the_commands_print_what_the_page_says(repo: Path) -> None:
    sh("headgate run --flow notes.yaml 'Find out what the tests need.'", repo)
    for console in block("console"):
        for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            pattern = re.escape(output).replace(re.escape("...\n"), r"(?:.*\n)*?")
            assert re.fullmatch(pattern, sh(command, repo)), command


def test_the_skill_is_valid() -> None:
    assert read_skill(block("markdown")[0], "make-releases").description.startswith("Makes a release.")


def test_the_figures_are_true() -> None:
    text = " ".join(PAGE.split())
    for said in (
        f"{MEMORY_CHARS:,} characters and {MEMORY_TAGS} tags",
        f"at most {MOST_MEMORIES:,} memories",
        f"at most {MOST_FOUND}, and {FOUND_CHARS:,} characters",
        f"at most {NAME_CHARS} lower-case letters",
        f"1 to {DESCRIPTION_CHARS:,} characters",
        f"larger than {SKILL_BYTES:,} bytes",
    ):
        assert said in text, said
    assert f"folder: {SkillSettings().folder} " in text
    assert f"folders: [{', '.join(SkillSettings().folders)}]" in text


def test_the_table_names_the_tools() -> None:
    rows = re.findall(r"^\| `(\w+)\((.*?)\)` \| `?([\w.]*)`? ?\| (\w+) \|", PAGE, re.MULTILINE)
    known = {tool.name: tool for tool in TOOLS}
    aliases = {name: alias for alias, name in TOOL_ALIASES.items()}
    assert len(rows) == 4
    for name, usage, alias, category in rows:
        assert (known[name].usage(), known[name].spec.category, known[name].spec.by_name) == (
            usage,
            category,
            True,
        )
        assert alias == aliases.get(name, "")
