"""Expressions that are compiled at their first use do what compiled ones do."""

import re

import pytest

from headgate.patterns import regex


def test_it_finds_what_a_compiled_one_finds() -> None:
    text, flags = r"^(\w+)=(?P<value>\d+)$", re.MULTILINE | re.IGNORECASE
    ours, compiled = regex(text, flags), re.compile(text, flags)
    lines = "a=1\nb=x\nC=3"
    for _ in range(2):  # the first time it is compiled
        assert [found.groups() for found in ours.finditer(lines)] == [("a", "1"), ("C", "3")]
        assert ours.findall(lines) == compiled.findall(lines)
        assert ours.sub(r"\g<value>", lines) == compiled.sub(r"\g<value>", lines) == "1\nb=x\n3"
        assert ours.match("b=x") is ours.fullmatch("b=x") is ours.search("") is None
    assert (ours.pattern, ours.flags, ours.groups) == (text, compiled.flags, 2)
    assert ours.groupindex == compiled.groupindex


def test_bytes() -> None:
    assert regex(rb"\s+").split(b"a \n b") == [b"a", b"b"]


def test_a_wrong_expression_is_found_out_at_its_first_use() -> None:
    wrong = regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.search("(")
