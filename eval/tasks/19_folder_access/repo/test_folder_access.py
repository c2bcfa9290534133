import pytest

from folder_access import AccessDenied, Folder


def shared():
    folder = Folder("plans", "ada")
    folder.share("ada", "bob", "guest")
    folder.share("ada", "eve", "author")
    return folder


def test_owner_may_do_everything():
    assert shared().allows("ada", "read", "write", "share", "delete")


def test_guest_may_read():
    assert shared().allows("bob", "read") is True


def test_guest_may_not_read_and_write():
    assert shared().allows("bob", "read", "write") is False


def test_missing_right_is_refused():
    with pytest.raises(AccessDenied, match="eve may not write and delete in plans"):
        shared().demand("eve", "write", "delete")


def test_stranger_has_no_rights():
    assert shared().allows("joe", "read") is False


def test_only_the_owner_shares():
    with pytest.raises(AccessDenied):
        shared().share("eve", "joe", "guest")
