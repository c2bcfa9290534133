import pytest

from result_pages import Page, PageError, page_count, page_of


@pytest.mark.parametrize(
    ("total", "size", "count"),
    [
        (0, 7, 1),
        (1, 7, 1),
        (6, 7, 1),
        (7, 7, 1),
        (8, 7, 2),
        (13, 7, 2),
        (14, 7, 2),
        (15, 7, 3),
        (5, 4, 2),
        (7, 1, 7),
        (99, 100, 1),
        (101, 100, 2),
        (199, 100, 2),
    ],
)
def test_number_of_pages(total, size, count):
    assert page_count(total, size) == count


@pytest.mark.parametrize("size", [1, 2, 3, 5, 20])
def test_pages_hold_every_item_once(size):
    for total in range(1, 13):
        items = list(range(total))
        count = page_count(total, size)
        pages = [page_of(items, number, size) for number in range(1, count + 1)]
        assert [item for page in pages for item in page.items] == items
        assert all(len(page.items) == size for page in pages[:-1])
        assert 1 <= len(pages[-1].items) <= size


def test_short_last_page_is_the_last():
    page = page_of("abcdefg", 3, 3)
    assert page == Page(["g"], 3, 3)
    assert not page.has_next
    assert page.has_previous
    assert page_of("abcdefg", 2, 3).has_next


def test_only_page_may_be_short():
    page = page_of((1, 2), 1, 5)
    assert page == Page([1, 2], 1, 1)
    assert not page.has_next
    assert not page.has_previous


@pytest.mark.parametrize("number", [-1, 0, 4, 5])
def test_pages_that_do_not_exist(number):
    with pytest.raises(PageError):
        page_of([1, 2, 3, 4, 5], number, 2)


def test_nothing_has_no_second_page():
    with pytest.raises(PageError):
        page_of([], 2, 3)


@pytest.mark.parametrize("size", [0, -2])
def test_page_holds_at_least_one_item(size):
    with pytest.raises(ValueError):
        page_count(3, size)
    with pytest.raises(ValueError):
        page_of([1, 2, 3], 1, size)
