"""Long results are cut in the middle, and say where the rest is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import plain
from headgate.tools import cap


def test_short_text_is_left_alone_and_not_saved() -> None:
    saved: list[str] = []
    assert cap("abc\n", 4, lambda text: saved.append(text) or "name") == "abc\n"
    assert saved == []


def test_long_text_keeps_head_and_tail_on_line_borders() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 1001))
    saved: list[str] = []
    result = cap(text, 400, lambda text: saved.append(text) or ".headgate/outputs/1.txt")
    assert saved == [text]
    assert result.splitlines()[0] == "line 1"
    assert result.splitlines()[-1] == "line 1000"
    head, note, tail = (
        result.partition("[... ")[0],
        result[result.index("[...") :].splitlines()[0],
        result.split("...]\n")[1],
    )
    cut = text[len(head) : len(text) - len(tail)]
    start = head.count("\n") + 1
    assert note == (
        f"[... {len(cut):,} characters ({cut.count(chr(10)):,} lines) cut; full output:"
        f" .headgate/outputs/1.txt; to continue, call read_file with start_line={start} ...]"
    )
    assert cut.startswith(f"line {start}\n")


@given(st.text(alphabet="ab\n", max_size=600), st.integers(0, 400), st.text(max_size=40))
def test_result_never_exceeds_the_limit(text: str, limit: int, name: str) -> None:
    saved: list[str] = []
    result = cap(text, limit, lambda text: saved.append(text) or name)
    assert len(result) <= limit
    assert saved == ([] if len(text) <= limit else [text])
    if len(text) <= limit:
        assert result == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m\n", "red\n"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("\x1b]0;title\x07text\x00\x08", "text"),
        ("tab\tstays\n", "tab\tstays\n"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ],
)
def test_plain(raw: str, shown: str) -> None:
    assert plain(raw) == shown
