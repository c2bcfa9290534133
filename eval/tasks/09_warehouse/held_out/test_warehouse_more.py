import pytest

from shelf_index import ShelfIndex
from warehouse import StockError, Warehouse


def stocked(**shelves):
    house = Warehouse()
    for item, shelf in shelves.items():
        house.receive(item, 3, shelf)
    return house


def test_moving_the_only_item_leaves_no_empty_shelf():
    house = stocked(bolt="A1", nut="B2")
    house.move("bolt", "B2")
    assert house.overview() == {"B2": ["bolt", "nut"]}


def test_item_that_moves_on_and_back():
    house = stocked(bolt="A1", nut="A1")
    for shelf in ("B2", "C3", "A1", "D4"):
        house.move("bolt", shelf)
        assert house.shelf_of("bolt") == shelf
    assert house.overview() == {"A1": ["nut"], "D4": ["bolt"]}


def test_only_item_moved_to_its_own_shelf_stays():
    house = stocked(bolt="A1")
    house.move("bolt", "A1")
    house.move("bolt", "A1")
    assert house.overview() == {"A1": ["bolt"]}


def test_item_that_is_shipped_after_a_move():
    house = stocked(bolt="A1", nut="B2")
    house.move("bolt", "B2")
    house.ship("bolt", 3)
    assert house.shelf_of("bolt") is None
    assert house.overview() == {"B2": ["nut"]}


def test_neighbour_stays_when_an_item_is_sold_out():
    house = stocked(bolt="A1", nut="A1", gear="A1")
    house.ship("nut", 1)
    house.ship("nut", 2)
    assert house.overview() == {"A1": ["bolt", "gear"]}
    house.ship("bolt", 3)
    house.ship("gear", 3)
    assert house.overview() == {}


def test_sold_out_item_comes_back_on_another_shelf():
    house = stocked(bolt="A1")
    house.ship("bolt", 3)
    house.receive("bolt", 1, "C3")
    assert house.overview() == {"C3": ["bolt"]}
    with pytest.raises(StockError):
        house.ship("bolt", 2)


def test_refused_changes_leave_the_shelves_alone():
    house = stocked(bolt="A1", nut="B2")
    for refused in (
        lambda: house.ship("bolt", 4),
        lambda: house.ship("gear", 1),
        lambda: house.move("gear", "A1"),
        lambda: house.receive("gear", 0, "A1"),
    ):
        with pytest.raises(StockError):
            refused()
    assert house.overview() == {"A1": ["bolt"], "B2": ["nut"]}


def test_index_by_item_and_by_shelf():
    index = ShelfIndex()
    index.place("nut", "A1")
    index.place("bolt", "A1")
    index.place("bolt", "B2")
    assert (index.items_on("A1"), index.items_on("B2"), index.shelves()) == (["nut"], ["bolt"], ["A1", "B2"])
    index.drop("nut")
    assert index.shelf_of("nut") is None
    assert (index.items_on("A1"), index.items_on("C3"), index.shelves()) == ([], [], ["B2"])
