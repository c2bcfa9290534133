"""Skills: folders of a repository with instructions for a kind of work."""

from headgate.features.skills.skill_files import (
    DESCRIPTION_CHARS,
    NAME_CHARS,
    SkillInvalid,
    SkillText,
    check_skill_name,
    read_front_matter,
    read_skill,
    write_skill,
)
from headgate.features.skills.tools import SKILL_BYTES, find_skills, skill_tools
