"""SKILL.md files in the open Agent Skills form: a name and a description as front matter, then instructions.

Anybody may have written them. The front matter is read as YAML nodes, without building what they describe.
"""

import re
from typing import NamedTuple

import yaml

from headgate.first_use import regex

NAME_CHARS, DESCRIPTION_CHARS = 64, 1024
FRONT_CHARS = 8_000
FRONT_BRACKETS = 200
"""Lists and mappings that are opened. The time that reading them takes grows with the square of that."""
_NAME = regex(r"[a-z0-9]+(-[a-z0-9]+)*")
_FENCE = regex(r"^---[ \t]*$", re.MULTILINE)


class SkillInvalid(ValueError):
    """What is wrong with a skill, as the end of a sentence that begins with its name."""


class SkillText(NamedTuple):
    """What a SKILL.md file says."""

    name: str
    description: str
    body: str


def check_skill_name(name: str) -> None:
    """SkillInvalid if no skill may have this name."""
    if len(name) > NAME_CHARS:
        raise SkillInvalid(f"has a name of {len(name)} characters; {NAME_CHARS} are the most")
    if not _NAME.fullmatch(name):
        raise SkillInvalid("has a name that is not made of lower-case letters, digits and single hyphens")


def check_description(description: str) -> None:
    """SkillInvalid if this describes nothing, or too much."""
    if not description.strip():
        raise SkillInvalid("has no description")
    if len(description) > DESCRIPTION_CHARS:
        raise SkillInvalid(
            f"has a description of {len(description):,} characters; {DESCRIPTION_CHARS:,} are the most"
        )


def split_front_matter(text: str) -> tuple[str, str]:
    """The front matter of a file and what follows it. SkillInvalid if there is no front matter."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    fences = _FENCE.finditer(plain)
    first, last = next(fences, None), next(fences, None)
    if first is None or first.start() != 0 or last is None:
        raise SkillInvalid("has no front matter between two lines of ---")
    return plain[first.end() : last.start()], plain[last.end() :].lstrip("\n")


def read_skill(text: str, folder: str) -> SkillText:
    """What the SKILL.md in a folder of this name says. SkillInvalid if it says that wrongly."""
    values, body = read_front_matter(text)
    name, description = values.get("name", ""), " ".join(values.get("description", "").split())
    if not name:
        raise SkillInvalid("has no name in its front matter")
    check_skill_name(name)
    if name != folder:
        raise SkillInvalid(f"is named {name!r} in its front matter, which is not the name of its folder")
    check_description(description)
    return SkillText(name, description, body)


def read_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The text values of a file's front matter, by key, and what follows. SkillInvalid if it has none."""
    front, body = split_front_matter(text)
    return _read_values(front), body


def _read_values(front: str) -> dict[str, str]:
    """The text values of the front matter, by key."""
    if len(front) > FRONT_CHARS:
        raise SkillInvalid(f"has front matter of {len(front):,} characters; {FRONT_CHARS:,} are the most")
    if front.count("[") + front.count("{") > FRONT_BRACKETS:
        raise SkillInvalid(f"has front matter with more than {FRONT_BRACKETS} opening brackets")
    try:
        root = yaml.compose(front, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f" in line {line + 1}"  # counted from the fence
        raise SkillInvalid(f"has front matter that is not YAML{where}") from None
    if not isinstance(root, yaml.MappingNode):
        raise SkillInvalid("has front matter without keys")
    scalars = (pair for pair in root.value if all(isinstance(node, yaml.ScalarNode) for node in pair))
    return {str(key.value): str(value.value) for key, value in scalars if not value.tag.endswith(":null")}


def write_skill(skill: SkillText) -> str:
    """The SKILL.md file that says this."""
    fields = {"name": skill.name, "description": skill.description}
    front = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1_000_000)
    return f"---\n{front}---\n\n{skill.body.strip()}\n"
