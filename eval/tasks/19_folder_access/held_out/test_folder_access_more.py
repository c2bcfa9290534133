import pytest

from folder_access import AccessDenied, Folder

RIGHTS = ("read", "write", "share", "delete")
GRANTED = {"bob": {"read"}, "eve": {"read", "write"}, "ada": set(RIGHTS), "joe": set()}


def shared():
    folder = Folder("plans", "ada")
    folder.share("ada", "bob", "guest")
    folder.share("ada", "eve", "author")
    return folder


@pytest.mark.parametrize("person", GRANTED)
def test_two_rights_in_any_order(person):
    for first in RIGHTS:
        for second in RIGHTS:
            assert shared().allows(person, first, second) is ({first, second} <= GRANTED[person])


@pytest.mark.parametrize("person", GRANTED)
def test_single_rights(person):
    assert [shared().allows(person, right) for right in RIGHTS] == [
        right in GRANTED[person] for right in RIGHTS
    ]


@pytest.mark.parametrize(
    ("person", "rights", "allowed"),
    [
        ("eve", ("read", "write", "share"), False),
        ("eve", ("delete", "read", "write"), False),
        ("eve", ("read", "share", "write"), False),
        ("ada", ("delete", "write", "read"), True),
        ("ada", ("read", "print"), False),
        ("bob", ("read", "read"), True),
    ],
)
def test_several_rights(person, rights, allowed):
    assert shared().allows(person, *rights) is allowed


@pytest.mark.parametrize(
    ("person", "rights"), [("bob", ("write", "read")), ("bob", ("read", "write")), ("joe", ("read",))]
)
def test_demand_refuses_what_is_granted_in_part(person, rights):
    with pytest.raises(AccessDenied):
        shared().demand(person, *rights)


def test_demand_accepts_what_is_granted():
    shared().demand("eve", "write", "read")
    shared().demand("ada", *RIGHTS)


def test_refused_share_changes_nothing():
    folder = shared()
    for by in ("eve", "bob", "joe"):
        with pytest.raises(PermissionError):
            folder.share(by, by, "owner")
    with pytest.raises(ValueError):
        folder.share("ada", "bob", "king")
    assert folder.rights_of("eve") == {"read", "write"}
    assert folder.rights_of("bob") == {"read"}
    assert folder.rights_of("joe") == set()


def test_new_role_counts_at_once():
    folder = shared()
    folder.share("ada", "bob", "owner")
    folder.share("bob", "eve", "guest")
    assert folder.allows("bob", "share", "delete")
    assert not folder.allows("eve", "read", "write")
