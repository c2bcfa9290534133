import pytest

from paragraph_wrap import wrap, wrap_with_prefix


def test_empty_text_has_no_lines():
    assert wrap("   ", 10) == []


def test_breaks_before_a_word_that_does_not_fit():
    assert wrap("one two three", 9) == ["one two", "three"]


def test_line_may_be_exactly_as_long_as_the_width():
    assert wrap("one two three", 7) == ["one two", "three"]


def test_last_word_fills_the_line():
    assert wrap("a bc", 4) == ["a bc"]


def test_long_word_is_not_cut():
    assert wrap("an extraordinary day", 6) == ["an", "extraordinary", "day"]


def test_prefix_counts_as_width():
    assert wrap_with_prefix("red green blue", 9, "> ") == ["> red", "> green", "> blue"]


def test_width_must_be_positive():
    with pytest.raises(ValueError):
        wrap("text", 0)
