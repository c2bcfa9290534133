"""Whole answers from a model: the code in them, and where it goes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.checks import Suspect
from headgate.features.repair.answers import (
    MOST_PLACES,
    answered_sources,
    code_identity,
    code_in,
    count_leftovers,
)
from headgate.reading import parse_python

SOURCE = "def f(a, b):\n    if a:\n        return a - b\n    return b\n"
PLACE = Suspect("m.py", "f", 1, 4, line=3)
ASKS = ["line", "missing", "function", "file"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("return 1", "return 1"),
        ("\n    return 1\n\n", "    return 1"),
        ("Look:\n```python\nx = 1\n```\nThat is it.", "x = 1"),
        ("```python\nx = 1\ny = 2", "x = 1\ny = 2"),
        ("```\nshort\n```\nor\n~~~py\nlonger = 1\n~~~\n", "longer = 1"),
        ("````md\n```\ninner\n```\n````", "```\ninner\n```"),
        ("```\n```", ""),
        ("", ""),
        ('{"code": "x = 1\\ny = 2"}', "x = 1\ny = 2"),
        ('```json\n{"code": "x = 1"}\n```', "x = 1"),
        ('{"code": ""}', ""),
        ('{"line": "x = 1"}', ""),
        ('{"code": 5}', ""),
        ('{"code": "x', '{"code": "x'),
        ("[1]", "[1]"),
    ],
)
def test_the_code_of_a_reply(reply: str, code: str) -> None:
    assert code_in(reply) == code


@pytest.mark.parametrize(
    ("ask", "reply", "sources"),
    [
        ("line", "return a + b", [SOURCE.replace("a - b", "a + b")]),
        ("line", "        return a + b", [SOURCE.replace("a - b", "a + b")]),
        ("line", '{"code": "return a + b"}', [SOURCE.replace("a - b", "a + b")]),
        ("line", "c = a\nreturn a - c", [SOURCE.replace("return a - b", "c = a\n        return a - c")]),
        (
            "line",
            "print(a)",
            [
                SOURCE.replace("return a - b", "print(a)"),
                SOURCE.replace("return a - b", "print(a)\n        return a - b"),
                SOURCE.replace("return a - b", "return a - b\n        print(a)"),  # nothing reaches it
            ],
        ),
        (
            "line",
            "if a:\n    return a + b\nreturn b",
            [
                SOURCE.replace("a - b", "a + b"),
                SOURCE.replace(
                    "        return a - b", "        if a:\n            return a + b\n        return b"
                ),
            ],
        ),
        ("line", "def f(a, b):\n    return a + b", ["def f(a, b):\n    return a + b\n"]),
        ("line", "return (", []),
        ("line", '{"code": ""}', []),
        ("line", "", []),
        (
            "missing",
            "b = abs(b)",
            [
                SOURCE.replace("    if", "    b = abs(b)\n    if"),
                SOURCE.replace("        return", "        b = abs(b)\n        return"),
                SOURCE.replace("    return b\n", "    b = abs(b)\n    return b\n"),
            ],
        ),
        ("missing", "```\n)\n```", []),
        ("function", "```\ndef f(a, b):\n    return 0\n```", ["def f(a, b):\n    return 0\n"]),
        ("function", "return 0", []),
        (
            "file",
            "```\nx = 1\n\n\ndef f(a, b):\n    return 0\n```",
            ["x = 1\n\n\ndef f(a, b):\n    return 0\n"],
        ),
        ("file", "I cannot do that, sorry.", []),
    ],
)
def test_where_an_answer_goes(ask: str, reply: str, sources: list[str]) -> None:
    found = answered_sources(SOURCE, reply, PLACE, ask, is_python=True)
    assert found == sources
    with_returns = answered_sources(SOURCE.replace("\n", "\r\n"), reply, PLACE, ask, is_python=True)
    assert with_returns == [source.replace("\n", "\r\n") for source in sources]


def test_what_leaves_old_code_behind_comes_last() -> None:
    assert [count_leftovers(text) for text in (SOURCE, "x = 1\nx = 1\n", "def (")] == [0, 1, 0]
    assert count_leftovers(SOURCE + "    return a\n") == 1
    found = answered_sources(SOURCE, "return f(b, 1)", PLACE, "line", is_python=True)
    assert [count_leftovers(text) for text in found] == sorted(count_leftovers(text) for text in found)


def test_files_that_are_no_python_are_only_taken_whole() -> None:
    suspect = Suspect("a.sh", last=1)
    assert answered_sources("echo 1\n", "```sh\necho 2\n```", suspect, "file", is_python=False) == [
        "echo 2\n"
    ]
    assert answered_sources("echo 1\n", "echo 2", suspect, "function", is_python=False) == []


def test_what_says_the_same_has_one_identity() -> None:
    assert code_identity("x=1 # one\n", is_python=True) == code_identity("x = 1\n", is_python=True)
    assert code_identity("a  \n\n  b\n", is_python=False) == code_identity("a\nb", is_python=False)
    assert code_identity("def (", is_python=True) == "def ("


PARTS = [
    *("```", "```python\n", "~~~", "\n", '{"code": "', '"}', "def f(a, b):", "    return a", "\r", "    "),
    *("class C:\n", "\0", "\ud800", '"""', "if a:", "return b", "x = 1", "(", "[" * 300, "\x0c"),
]
replies = st.one_of(
    st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.binary(max_size=60).map(lambda data: data.decode("latin-1")),
    st.lists(st.sampled_from(PARTS), max_size=10).map("".join),
)
sources = st.sampled_from(
    [SOURCE, SOURCE.replace("\n", "\r\n"), "", "x = 1", "def f(:\n", "a\rb\n", "\ud800\n"]
)


@settings(max_examples=200)
@given(sources, replies, st.sampled_from(ASKS), st.booleans(), st.integers(-1, 6))
def test_no_reply_is_too_odd(source: str, reply: str, ask: str, is_python: bool, line: int) -> None:
    suspect = Suspect("m.py", "f", 1, 4, line=line)
    found = answered_sources(source, reply, suspect, ask, is_python=is_python)
    assert len(found) <= MOST_PLACES
    assert not is_python or all(parse_python(text) is not None for text in found)
    assert len({code_identity(text, is_python=is_python) for text in found}) == len(found)
