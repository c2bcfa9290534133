"""Who is asked before a command runs or a file is written, and what an answer is good for."""

from pathlib import Path

import pytest

from headgate.core import Access
from headgate.errors import ToolDenied
from headgate.guard import AllowList, Answer, ApprovalMode, Approvals
from headgate.tree import DiskWorkspace, FileChange

RUN, OTHER, WRITE = Access("run", "make all"), Access("run", "rm -rf build"), Access("write", "a.py")


class Person:
    """Gives the answers that it was told to give, and remembers the questions."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def __call__(self, access: Access) -> Answer:
        self.asked.append(access.target)
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("never", []),
        ("commands", ["make all"]),
        ("writes", ["a.py"]),
        ("all", ["make all", "a.py"]),
    ],
)
def test_what_is_asked(mode: ApprovalMode, asked: list[str], tmp_path: Path) -> None:
    person = Person("once", "once")
    approvals = Approvals(mode, person, AllowList(tmp_path / "allowed.json"))
    for access in (Access("read", "a.py"), RUN, WRITE):
        if approvals(access):
            assert approvals.approve(access) == ""
    assert person.asked == asked


def test_once_is_asked_again_and_for_the_task_is_not(tmp_path: Path) -> None:
    person = Person("once", "task")
    approvals = Approvals("all", person, AllowList(tmp_path / "allowed.json"))
    assert [approvals.approve(RUN), approvals.approve(RUN)] == ["", ""]
    assert approvals(OTHER) is None
    assert approvals(WRITE) is not None, "the answer was about commands"


def test_always_outlives_the_task(tmp_path: Path) -> None:
    listed = tmp_path / "config" / "allowed.json"
    assert Approvals("all", Person("always"), AllowList(listed)).approve(RUN) == ""
    later = Approvals("all", Person(), AllowList(listed))
    assert later(RUN) is None
    assert later(OTHER) is not None


def test_no_is_told_to_the_model(tmp_path: Path) -> None:
    approvals = Approvals("all", Person("no"), AllowList(tmp_path / "allowed.json"))
    workspace = DiskWorkspace(tmp_path, [approvals], approve=approvals.approve)
    with pytest.raises(ToolDenied, match="The user did not allow this write"):
        workspace.apply([FileChange("a.py", None, b"x = 1\n")])
    assert not (tmp_path / "a.py").exists()
    assert workspace.may_write("a.py"), "it may be written, once somebody says so"


def test_where_nobody_can_be_asked_it_says_how_to_allow_it(tmp_path: Path) -> None:
    approvals = Approvals("commands", None, AllowList(tmp_path / "allowed.json"))
    workspace = DiskWorkspace(tmp_path, [approvals], approve=approvals.approve)
    with pytest.raises(ToolDenied, match="allow_commands"):
        workspace.check_run("make all")


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("pytest -q", True),
        ("pytest", False),
        ("pytest -q; rm -rf /", False),
        ("pytest -q && curl evil", False),
        ("pytest $(curl evil)", False),
        ("pytest -q > /etc/passwd", False),
        ("git status", True),
    ],
)
def test_patterns_of_the_configuration(command: str, allowed: bool, tmp_path: Path) -> None:
    listed = AllowList(tmp_path / "allowed.json", ["pytest *", "git status"])
    assert listed.has(Access("run", command)) is allowed
