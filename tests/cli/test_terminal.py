"""Lines on a terminal: no wider than it is, broken at words; in a pipe, as they are."""

from pathlib import Path

from command import headgate, on_terminal
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.terminal import fold_lines, shorten_line

WORDS = st.lists(st.text("abc-/", min_size=1, max_size=30), max_size=30).map(" ".join)


@given(WORDS, st.integers(20, 100), st.integers(0, 30) | st.none())
def test_folding_keeps_the_words_and_the_width(text: str, width: int, hanging: int | None) -> None:
    folded = fold_lines(text, width, hanging)
    assert folded.split() == text.split()
    for line in folded.split("\n"):
        assert len(line) <= width or len(line.split()) == 1
    assert fold_lines(text, None, hanging) == text


def test_what_follows_is_indented() -> None:
    assert fold_lines("  | one two three", 12, 4) == "  | one two\n    three"
    assert fold_lines(f"  | {'=' * 20}", 12, 4) == f"  | {'=' * 20}"
    assert fold_lines("  one two three", 12) == "  one two\n  three"
    assert (shorten_line("one two three", 10), shorten_line("one", 10), shorten_line("x" * 99, None)) == (
        "one two...",
        "one",
        "x" * 99,
    )


def lines_on_terminal(repo: Path, columns: int, *args: str) -> list[str]:
    """The lines that a command prints on a terminal of that width."""
    return on_terminal(repo, *args, COLUMNS=str(columns), TERM="dumb")[1].splitlines()


def test_nothing_is_wider_than_the_terminal(repo: Path) -> None:
    text = "Make it so that every price has its tax and that nothing else changes anywhere at all, please"
    assert headgate(repo, "submit", "--no-start", text).returncode == 0
    tasks = lines_on_terminal(repo, 60, "tasks")
    assert (len(tasks), tasks[0].endswith("...")) == (1, True)
    for args in (("--help",), ("flows", "draw", "staged"), ("doctor",), ("watch", "--detail")):
        printed = lines_on_terminal(repo, 80, *args)
        assert printed
        assert [line for line in printed if len(line) > 80 and str(repo.parent) not in line] == []
    piped = headgate(repo, "tasks")
    assert piped.returncode == 0
    assert piped.stdout.rstrip("\n").endswith(text)
