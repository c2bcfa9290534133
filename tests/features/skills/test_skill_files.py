"""SKILL.md: what is written is read back, and what others write is read or refused, in a bounded time."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.features.skills import SkillInvalid, SkillText, check_skill_name, read_skill, write_skill

NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=80)


@pytest.mark.parametrize("name", ["a", "7", "make-releases", "a-1-b", "a" * 64])
def test_a_good_name(name: str) -> None:
    check_skill_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "A", "-a", "a-", "a--b", "a_b", "a b", "a/b", "..", "a.b", "ä", "a\n", "１", "a" * 65],
)
def test_a_bad_name(name: str) -> None:
    with pytest.raises(SkillInvalid, match=r"^has a name"):
        check_skill_name(name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no front matter"),
        ("# Skill\n---\nname: s\n---\n", "has no front matter"),
        ("---\nname: s\ndescription: d\n", "has no front matter"),
        ("---\n---\n", "has front matter without keys"),
        ("---\n- name\n---\n", "has front matter without keys"),
        ("---\nname: [\n---\n", "has front matter that is not YAML"),
        ("---\nname: " + "[" * 200 + "\n---\n", "has front matter that is not YAML"),
        ("---\nname: s\ndescription: a: b\n---\n", "is not YAML in line 3"),
        ("---\nname: s\n\tdescription: d\n---\n", "is not YAML in line 3"),
        ("---\n" + "{" * 201 + "\n---\n", "has front matter with more than 200 opening brackets"),
        ("---\nx: " + "y" * 9_000 + "\n---\n", "has front matter of 9,00"),
        ("---\ndescription: d\n---\n", "has no name"),
        ("---\nname: {a: b}\ndescription: d\n---\n", "has no name"),
        ("---\nname: ~\ndescription: d\n---\n", "has no name"),
        ("---\nname: other\ndescription: d\n---\n", "is named 'other'"),
        ("---\nname: s\n---\n", "has no description"),
        ("---\nname: s\ndescription: ''\n---\n", "has no description"),
        ("---\nname: s\ndescription: " + "d" * 1_025 + "\n---\n", "has a description of 1,025"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str) -> None:
    with pytest.raises(SkillInvalid) as found:
        read_skill(text, "s")
    assert reason in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: s\ndescription: d\n---\nBody\n",
        "\ufeff---\r\nname: s\r\ndescription: d\r\n---\r\n\r\nBody\r\n",
        "--- \nname: 's'\ndescription: >-\n  d\nallowed-tools: [Bash]\nmetadata:\n  a: {b: c}\n---\t\nBody\n",
        "---\nx: &x [1, *x]\nname: s\ndescription: d\n---\n\nBody\n",
    ],
)
def test_forms_that_are_read(text: str) -> None:
    assert read_skill(text, "s") == SkillText("s", "d", "Body\n")


def test_a_rule_in_the_body_is_part_of_it() -> None:
    assert read_skill("---\nname: s\ndescription: d\n---\n\nA\n\n---\n\nB\n", "s").body == "A\n\n---\n\nB\n"


@given(NAMES, LINES.map(lambda text: " ".join(text.split())).filter(bool), LINES)
def test_what_is_written_is_read_back(name: str, description: str, body: str) -> None:
    skill = SkillText(name, description, body.strip() + "\n")
    assert read_skill(write_skill(skill), name) == skill or not body.strip()


@given(st.text(alphabet="-\n:&*[]{}!|>'\"%@#~ abdeimnoprstc", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nBody\n"):
        with suppress(SkillInvalid):
            assert read_skill(whole, "s").name == "s"
