"""Which files a text mentions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.features.mentions.signs import MOST, Mention, Mentions, find_mentions

FILES = frozenset({"src/a.py", "a.py", "b.py", "with space.py", "src/", "Makefile", "app/[id].tsx", "a:7"})


def find(text: str) -> Mentions:
    return find_mentions(text, FILES.__contains__)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See @src/a.py.", ["@src/a.py"]),
        ("@src/a.py:10-40, then @src/a.py:12.", ["@src/a.py:10-40", "@src/a.py:12"]),
        ("(@a.py) **@b.py**", ["@a.py", "@b.py"]),
        ('@"with space.py":3-4 and @"with space.py"', ['@"with space.py":3-4', '@"with space.py"']),
        ("All of @src/ please", ["@src/"]),
        ("@a.py,@b.py", ["@a.py", "@b.py"]),
        ("@a.py's total and @b.py:total()", ["@a.py", "@b.py"]),
        ("@Makefile!", ["@Makefile"]),
        ("@app/[id].tsx?", ["@app/[id].tsx"]),
        ("@a.py:40-10", ["@a.py:10-40"]),
        ("@a.py:0", ["@a.py:1"]),
        ("@a.py:5-", ["@a.py:5-"]),
        ("A file may be called @a:7.", ["@a:7"]),
        ("```\n@a.py\n```", []),
        ("```\n@a.py\n```\n@b.py", ["@b.py"]),
        ("Fix it\r\n=== FAILURES ===\r\n@a.py\r\n=== 1 failed in 0.1s ===\r\n@b.py", ["@b.py"]),
        ("`@a.py`", ["@a.py"]),
        ("@a.py @a.py", ["@a.py"]),
        ("@a.py。", ["@a.py"]),
        ("me@a.py x@@a.py ./@a.py", []),
        ("", []),
        ("@ @. @@ @'", []),
    ],
)
def test_what_is_there_is_mentioned(text: str, found: list[str]) -> None:
    assert [str(mention) for mention in find(text).found] == found


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("See @src/none.py:3.", ["@src/none.py:3"]),
        ("@none.py @docs/ @./none", ["@none.py", "@docs/", "@./none"]),
        ('@"no such file"', ['@"no such file"']),
        ("Write to me@example.com", []),
        ("@property @app.route('/x') @pytest.mark.slow @dataclass(frozen=True)", []),
        ("@types/node @angular/core/testing @user", []),
        ("```\n@none.py\n```\n`@none.py`", []),
        ("~~~\n@none.py", []),
        ("```\n```\n@none.py", ["@none.py"]),
    ],
)
def test_what_is_not_there_is_missed_only_if_it_can_be_nothing_else(text: str, missing: list[str]) -> None:
    assert [str(mention) for mention in find(text).missing] == missing


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}(/[A-Za-z0-9_-]{1,8}){0,2}\.[a-z]{1,4}", fullmatch=True)
LINES = st.none() | st.tuples(st.integers(1, 9_999), st.integers(0, 999))


@given(
    NAMES,
    LINES,
    st.sampled_from(["", "(", "see ", "\n", "- ", "**"]),
    st.sampled_from(["", ".", ",", ")", "?\n"]),
)
def test_a_mention_is_found_in_any_sentence(
    name: str, lines: tuple[int, int] | None, before: str, after: str
) -> None:
    mention = Mention(name) if lines is None else Mention(name, lines[0], lines[0] + lines[1])
    found = find_mentions(f"{before}{mention}{after}", {name}.__contains__)
    assert found == Mentions((mention,))


@given(st.text(alphabet=st.sampled_from("@@@ab/.:10-\"'`~, \n\t\x00é()[]"), max_size=300))
def test_any_text_has_its_mentions(text: str) -> None:
    asked: list[str] = []

    def exists(path: str) -> bool:
        asked.append(path)
        return path in ("a", "b/a", "a.b")

    found = find_mentions(text, exists)
    assert {mention.path for mention in found.found} <= {"a", "b/a", "a.b"}
    assert all("\n" not in path and "\x00" not in path for path in asked)
    assert find_mentions(text, lambda path: False).found == ()


def test_a_text_full_of_signs_is_bounded() -> None:
    asked: list[str] = []
    found = find_mentions("@a/b.py " * 100_000, lambda path: bool(asked.append(path)))
    assert len(found.missing) == 1
    assert len(asked) < 5_000
    many = find_mentions(" ".join(f"@{number}.py" for number in range(1_000)), lambda path: True)
    assert len(many.found) == MOST
