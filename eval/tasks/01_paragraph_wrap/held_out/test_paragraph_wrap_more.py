import pytest

from paragraph_wrap import wrap, wrap_with_prefix

TEXT = "a bb ccc dddd eeeee ff g hhh iiii jj k lll"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("aa bb cc dd", 5, ["aa bb", "cc dd"]),
        ("aa bb cc dd", 8, ["aa bb cc", "dd"]),
        ("aa bb cc dd", 11, ["aa bb cc dd"]),
        ("x y z", 3, ["x y", "z"]),
        ("four five six", 9, ["four five", "six"]),
        (" aa \n\t bb ", 5, ["aa bb"]),
    ],
)
def test_word_that_fills_the_line_stays(text, width, lines):
    assert wrap(text, width) == lines


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("aa bb", 4, ["aa", "bb"]),
        ("x y z", 2, ["x", "y", "z"]),
        ("a b", 1, ["a", "b"]),
        ("aa bb cc dd", 7, ["aa bb", "cc dd"]),
        ("word", 4, ["word"]),
        ("words", 4, ["words"]),
    ],
)
def test_word_that_is_one_too_long_moves_on(text, width, lines):
    assert wrap(text, width) == lines


def test_lines_are_as_full_as_every_width_allows():
    for width in range(1, 45):
        lines = wrap(TEXT, width)
        assert " ".join(lines) == TEXT
        assert all(len(line) <= width or " " not in line for line in lines)
        for line, following in zip(lines, lines[1:]):
            assert len(line) + 1 + len(following.split()[0]) > width


def test_prefixed_line_may_fill_the_width():
    assert wrap_with_prefix("red green blue", 11, "> ") == ["> red green", "> blue"]
    assert wrap_with_prefix("red green blue", 10, "> ") == ["> red", "> green", "> blue"]


def test_empty_prefix_changes_nothing():
    assert wrap_with_prefix("aa bb cc", 5, "") == wrap("aa bb cc", 5) == ["aa bb", "cc"]


def test_negative_width_is_refused():
    with pytest.raises(ValueError):
        wrap("text", -3)
