"""Two changes to one text, made into one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.features.repair.answers import merge

BASE = "a\nb\nc\nd\ne"


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("A\nb\nc\nd\ne", "a\nb\nc\nd\nE", "A\nb\nc\nd\nE"),
        ("a\nx\nb\nc\nd\ne", "a\nb\nc\ne", "a\nx\nb\nc\ne"),
        ("A\nb\nc\nd\ne", "A\nb\nc\nd\ne", "A\nb\nc\nd\ne"),
        ("A\nb\nc\nd\ne", "X\nb\nc\nd\ne", None),
        ("A\nb\nc\nd\ne", "a\nB\nc\nd\ne", None),
    ],
)
def test_changes_that_do_not_touch_each_other(one: str, other: str, merged: str | None) -> None:
    assert merge(BASE, one, other) == merged
    assert merge(BASE, other, one) == merged


texts = st.lists(st.sampled_from("abc"), max_size=6).map("\n".join)


@given(texts, texts, texts)
def test_a_change_and_none_is_that_change(base: str, one: str, other: str) -> None:
    assert merge(base, one, base) == one
    assert merge(base, one, other) == merge(base, other, one)
