"""load_skill and make_skill beside the runtime: what is found, how much of it is shown, what is written."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.errors import ToolFailed
from headgate.features.skills import find_skills, skill_tools
from headgate.tools import Outcome, Tool, ToolContext
from headgate.tree import DiskWorkspace, FileChange

FOLDERS = ("skills", ".agents/skills", ".claude/skills")
load_skill, make_skill = skill_tools(FOLDERS)


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    workspace = DiskWorkspace(tmp_path)
    return ToolContext(workspace=workspace, save_output=lambda text: "saved")


def call(tool: Tool, context: ToolContext, **arguments: str) -> Outcome:
    return asyncio.run(tool.run(context, tool.parse(arguments)))


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def skill(name: str, description: str = "d", body: str = "Do it.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


def test_many_skills_are_listed_as_far_as_they_fit(tmp_path: Path, context: ToolContext) -> None:
    for number in range(250):
        write(tmp_path, f"skills/s{number:03}/SKILL.md", skill(f"s{number:03}", "words " * 100))
    shown = call(load_skill, context).text
    assert len(shown) <= context.result_chars
    assert shown.splitlines()[1] == f"- s000: {('words ' * 50).strip()} [... 299 more characters]"
    found = find_skills(context.workspace, FOLDERS)
    assert len(found.skills) == 200
    assert found.skipped == ("skills has 250 entries; the first 200 were looked at.",)


def test_a_folder_that_is_a_link_inside_is_looked_at_once(tmp_path: Path, context: ToolContext) -> None:
    write(tmp_path, ".agents/skills/one/SKILL.md", skill("one"))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/skills").symlink_to("../.agents/skills")
    found = find_skills(context.workspace, FOLDERS)
    assert [each.path for each in found.skills] == [".agents/skills/one/SKILL.md"]
    assert found.skipped == ()


def test_odd_names_are_skipped(tmp_path: Path, context: ToolContext) -> None:
    write(tmp_path, os.fsdecode(b"skills/\xff\n\x1b[31m/SKILL.md"), skill("x"))
    (sentence,) = find_skills(context.workspace, FOLDERS).skipped
    assert sentence.isprintable()
    assert sentence.endswith("has a name that is not made of lower-case letters, digits and single hyphens.")


def test_a_guard_decides_what_is_read(tmp_path: Path, context: ToolContext) -> None:
    write(tmp_path, "hidden/SKILL.md", skill("one"))
    closed = (".git", ".headgate", "hidden/SKILL.md", "../outside")
    assert find_skills(context.workspace, closed).skills == ()


def test_the_files_beside_a_skill_are_named(tmp_path: Path, context: ToolContext) -> None:
    write(tmp_path, "skills/one/SKILL.md", skill("one"))
    for number in range(22):
        write(tmp_path, f"skills/one/f{number:02}.txt", "x")
    outcome = call(load_skill, context, name=" one ")
    assert outcome.read == ("skills/one/SKILL.md",)
    assert "Do it.\n\nBeside it: skills/one/f00.txt, " in outcome.text
    assert outcome.text.endswith("skills/one/f19.txt and 2 more.")


def test_what_is_made_is_a_change_and_not_written_by_the_tool(tmp_path: Path, context: ToolContext) -> None:
    outcome = call(make_skill, context, name="one", description=" A\nskill ", source="Do it.\r\nTwice.")
    text = b"---\nname: one\ndescription: A skill\n---\n\nDo it.\nTwice.\n"
    assert outcome.changes == (FileChange("skills/one/SKILL.md", None, text),)
    assert list(tmp_path.iterdir()) == []


def test_a_skill_is_overwritten_only_by_the_task_that_made_it(tmp_path: Path, context: ToolContext) -> None:
    write(tmp_path, "skills/one/SKILL.md", skill("one"))
    with pytest.raises(ToolFailed, match=r"skills/one/SKILL\.md exists already and is not of this task"):
        call(make_skill, context, name="one", description="d", source="New.")
    own = replace(context, made=lambda path: path == "skills/one/SKILL.md")
    (change,) = call(make_skill, own, name="one", description="d", source="New.").changes
    assert (change.before, change.after) == (skill("one").encode(), skill("one", body="New.").encode())
    assert call(make_skill, own, name="one", description="d", source="Do it.").changes == ()


def test_a_broken_file_of_somebody_else_is_kept_as_well(tmp_path: Path, context: ToolContext) -> None:
    write(tmp_path, "skills/one/SKILL.md", "no front matter")
    with pytest.raises(ToolFailed, match="so it is kept"):
        call(make_skill, context, name="one", description="d", source="New.")


@pytest.mark.parametrize("source", ["x" * 200_001, "\n \n"])
def test_instructions_have_a_size(context: ToolContext, source: str) -> None:
    with pytest.raises(ToolFailed, match='make_skill: "one" has '):
        call(make_skill, context, name="one", description="d", source=source)
