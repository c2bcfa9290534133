"""Whether a round of the debug loop has changed anything."""

from headgate.core import Category, FileHashes, ToolStarted
from headgate.core.counts import WorkSinceFailure
from headgate.core.failures import Failure

FAILED = Failure("run_1", "step tests failed", "tree", ("test_a",), own="tree")


def call(category: Category, *changes: tuple[str | None, str | None], name: str = "tool") -> ToolStarted:
    hashes = tuple(FileHashes(path="a.txt", before=before, after=after) for before, after in changes)
    return ToolStarted(call="1", name=name, category=category, target="", changes=hashes)


def is_idle(*calls: ToolStarted, ok: bool = True, tree: str = "tree", failing: str = "test_a") -> bool:
    under_way = WorkSinceFailure()
    for each in calls:
        under_way.take(each, ok=ok)
    return under_way.is_idle([FAILED], tree, FAILED.reason, (failing,))


def test_the_first_failure_ends_no_round() -> None:
    assert not WorkSinceFailure().is_idle([], "tree", "", ())


def test_another_tree_is_a_change() -> None:
    assert is_idle()
    assert not is_idle(tree="other")


def test_a_write_is_a_change_even_if_no_tree_shows_it() -> None:
    assert not is_idle(call("write", ("1", "2")))
    assert not is_idle(call("write", (None, "2")))
    assert is_idle(call("write", ("1", "1")))


def test_a_write_that_is_taken_back_or_refused_is_none() -> None:
    assert is_idle(call("write", ("1", "2")), call("write", ("2", "3")), call("write", ("3", "1")))
    assert is_idle(call("write", ("1", "2")), ok=False)


def test_a_command_counts_if_verification_fails_in_another_way() -> None:
    assert is_idle(call("run"))
    assert not is_idle(call("run"), failing="test_b")
    assert is_idle(call("run", name="run_tests"), failing="test_b")
    assert is_idle(failing="test_b")  # luck, and no change
