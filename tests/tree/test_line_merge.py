"""A change is put into another version of a file, or it is said that the two meet."""

from headgate.tree import merge_lines

LINES = b"".join(b"line %d\n" % number for number in range(1, 11))


def test_lines_that_are_apart_are_merged() -> None:
    changed, other = LINES.replace(b"line 2\n", b"two\n"), LINES.replace(b"line 9\n", b"")
    assert merge_lines(LINES, changed, other) == other.replace(b"line 2\n", b"two\n")
    assert merge_lines(LINES, changed, LINES) == changed


def test_lines_that_meet_and_binary_content_are_not() -> None:
    changed, other = LINES.replace(b"line 2\n", b"two\n"), LINES.replace(b"line 2\n", b"zwei\n")
    assert merge_lines(LINES, changed, other) == 2
    assert merge_lines(b"\0a", b"\0b", b"\0c") is None
