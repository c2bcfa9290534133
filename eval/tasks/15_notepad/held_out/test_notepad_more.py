import pytest

from notepad import Notepad


def written(lines, undo_limit=100):
    pad = Notepad(undo_limit)
    for line in lines:
        pad.write(line)
    return pad


def undone(pad):
    texts = []
    while pad.undo():
        texts.append(pad.text.replace("\n", ""))
    return texts


def redone(pad):
    texts = []
    while pad.redo():
        texts.append(pad.text.replace("\n", ""))
    return texts


@pytest.mark.parametrize(
    ("limit", "lines", "texts"),
    [
        (1, "ab", ["a"]),
        (1, "abcd", ["abc"]),
        (3, "abcde", ["abcd", "abc", "ab"]),
        (3, "abc", ["ab", "a", ""]),
        (5, "abc", ["ab", "a", ""]),
    ],
)
def test_undo_goes_back_step_by_step_within_the_limit(limit, lines, texts):
    assert undone(written(lines, limit)) == texts


@pytest.mark.parametrize("limit", [3, 4, 100])
def test_redo_goes_forward_over_all_that_was_undone(limit):
    pad = written("abcd", limit)
    back = undone(pad)
    assert redone(pad) == [*back[-2::-1], "abcd"]
    assert undone(pad) == back


def test_deleting_after_undo_forgets_what_was_undone():
    pad = written("abc")
    pad.undo()
    pad.delete(0)
    assert pad.redo() is False
    assert pad.text == "b"
    assert undone(pad) == ["ab", "a", ""]


def test_writing_after_several_undos_forgets_them_all():
    pad = written("abcd")
    pad.undo()
    pad.undo()
    pad.redo()
    pad.undo()
    pad.write("x")
    assert redone(pad) == []
    assert undone(pad) == ["ab", "a", ""]
    assert redone(pad) == ["a", "ab", "abx"]


def test_undo_and_new_change_with_a_full_history():
    pad = written("abcd", undo_limit=2)
    pad.undo()
    pad.write("x")
    pad.write("y")
    assert pad.redo() is False
    assert undone(pad) == ["abcx", "abc"]
    assert redone(pad) == ["abcx", "abcxy"]


def test_refused_deletion_is_no_change():
    pad = written("ab")
    pad.undo()
    for index in (-1, 1, 5):
        with pytest.raises(IndexError):
            pad.delete(index)
    assert pad.redo() is True
    assert pad.text == "a\nb"
    assert undone(pad) == ["a", ""]


def test_deletions_are_undone_and_redone():
    pad = written("abc", undo_limit=2)
    pad.delete(1)
    pad.delete(0)
    assert pad.text == "c"
    assert undone(pad) == ["ac", "abc"]
    assert redone(pad) == ["ac", "c"]


def test_writing_after_an_undone_deletion():
    pad = written("abc")
    pad.delete(0)
    pad.delete(0)
    pad.undo()
    pad.write("x")
    assert pad.redo() is False
    assert pad.text == "b\nc\nx"
    assert undone(pad) == ["bc", "abc", "ab", "a", ""]


def test_notepads_are_independent():
    first, second = written("ab"), written("x")
    first.undo()
    second.write("y")
    assert first.redo() is True
    assert (first.text, second.text) == ("a\nb", "x\ny")


def test_history_needs_room():
    with pytest.raises(ValueError):
        Notepad(0)
