import pytest

from notepad import Notepad


def written(*lines, undo_limit=100):
    pad = Notepad(undo_limit)
    for line in lines:
        pad.write(line)
    return pad


def test_undo_takes_the_last_line_back():
    pad = written("a", "b")
    assert pad.undo()
    assert pad.text == "a"


def test_redo_brings_it_again():
    pad = written("a", "b")
    pad.undo()
    assert pad.redo()
    assert pad.text == "a\nb"


def test_nothing_to_undo():
    assert Notepad().undo() is False


def test_undo_of_a_deletion():
    pad = written("a", "b")
    pad.delete(0)
    assert pad.text == "b"
    pad.undo()
    assert pad.text == "a\nb"


def test_no_redo_after_a_new_change():
    pad = written("a", "b")
    pad.undo()
    pad.write("c")
    assert pad.redo() is False
    assert pad.text == "a\nc"


def test_full_history_forgets_the_oldest_change():
    pad = written("a", "b", "c", undo_limit=2)
    pad.undo()
    assert pad.text == "a\nb"
    pad.undo()
    assert pad.text == "a"
    assert pad.undo() is False


def test_deleting_a_line_that_is_not_there():
    with pytest.raises(IndexError, match="no line 3"):
        written("a").delete(3)
