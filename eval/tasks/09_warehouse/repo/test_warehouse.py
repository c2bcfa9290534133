import pytest

from warehouse import StockError, Warehouse


def stocked():
    house = Warehouse()
    house.receive("bolt", 10, "A1")
    house.receive("nut", 5, "A1")
    house.receive("gear", 2, "B2")
    return house


def test_overview_of_new_stock():
    assert stocked().overview() == {"A1": ["bolt", "nut"], "B2": ["gear"]}


def test_receiving_again_keeps_the_shelf():
    house = stocked()
    house.receive("bolt", 1, "C3")
    assert house.shelf_of("bolt") == "A1"


def test_moving_takes_the_item_off_the_old_shelf():
    house = stocked()
    house.move("nut", "B2")
    assert house.shelf_of("nut") == "B2"
    assert house.overview() == {"A1": ["bolt"], "B2": ["gear", "nut"]}


def test_moving_to_the_same_shelf_changes_nothing():
    house = stocked()
    house.move("gear", "B2")
    assert house.overview() == {"A1": ["bolt", "nut"], "B2": ["gear"]}


def test_last_piece_empties_the_shelf():
    house = stocked()
    house.ship("gear", 2)
    assert house.shelf_of("gear") is None
    assert house.overview() == {"A1": ["bolt", "nut"]}


def test_shipping_a_part_keeps_the_item():
    house = stocked()
    house.ship("bolt", 9)
    assert house.shelf_of("bolt") == "A1"


def test_shipping_more_than_there_is():
    with pytest.raises(StockError, match="only 5 of nut"):
        stocked().ship("nut", 6)
