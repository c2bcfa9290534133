import pytest

from result_pages import Page, PageError, page_count, page_of


def test_full_pages():
    assert page_count(12, 4) == 3


def test_incomplete_page_counts():
    assert page_count(10, 4) == 3


def test_nothing_is_one_empty_page():
    assert page_of([], 1, 5) == Page([], 1, 1)


def test_middle_page():
    page = page_of("abcdef", 2, 2)
    assert page == Page(["c", "d"], 2, 3)
    assert page.has_next
    assert page.has_previous


def test_last_page_may_be_short():
    assert page_of([1, 2, 3, 4, 5], 3, 2) == Page([5], 3, 3)


def test_page_after_the_last():
    with pytest.raises(PageError):
        page_of([1, 2, 3, 4], 3, 2)
