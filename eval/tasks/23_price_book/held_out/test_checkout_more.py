import pytest

from checkout import Checkout
from price_book import PriceBook, UnknownArticle


def shop():
    prices = PriceBook()
    prices.set_price("pen", 120)
    prices.set_price("ink", 500)
    return prices


@pytest.mark.parametrize("quantity", [1, 2, 3, 10, 250])
def test_new_price_for_any_quantity(quantity):
    prices = shop()
    assert prices.quote("pen", quantity) == 120 * quantity
    prices.set_price("pen", 90)
    assert prices.quote("pen", quantity) == 90 * quantity


def test_price_that_changes_often():
    prices = shop()
    for cents in (150, 90, 0, 120, 120, 1):
        prices.set_price("ink", cents)
        assert [prices.quote("ink", quantity) for quantity in (1, 2, 1)] == [cents, 2 * cents, cents]


def test_all_quantities_that_were_quoted_before():
    prices = shop()
    assert [prices.quote("pen", n) for n in range(1, 6)] == [120, 240, 360, 480, 600]
    prices.set_price("pen", 100)
    assert [prices.quote("pen", n) for n in range(1, 6)] == [100, 200, 300, 400, 500]


def test_other_articles_keep_their_price():
    prices = shop()
    till = Checkout(prices)
    till.scan("pen", 3)
    till.scan("ink", 2)
    assert till.total() == 1360
    prices.set_price("pen", 200)
    assert till.lines() == [("pen", 3, 600), ("ink", 2, 1000)]
    prices.set_price("ink", 1)
    assert till.total() == 602


def test_rebates_stay_when_a_price_changes():
    prices = shop()
    prices.set_rebate(10, 5)
    prices.set_rebate(100, 20)
    assert [prices.quote("pen", n) for n in (9, 10, 100)] == [1080, 1140, 9600]
    prices.set_price("pen", 100)
    assert [prices.quote("pen", n) for n in (9, 10, 100)] == [900, 950, 8000]
    prices.set_rebate(10, 50)
    assert prices.rebate_for(9) == 0


def test_refused_price_changes_nothing():
    prices = shop()
    assert prices.quote("pen", 2) == 240
    with pytest.raises(ValueError):
        prices.set_price("pen", -1)
    with pytest.raises(ValueError):
        prices.set_price("glue", -1)
    assert prices.quote("pen", 2) == 240
    with pytest.raises(KeyError):
        prices.quote("glue", 1)


def test_article_that_gets_its_price_later():
    prices = shop()
    till = Checkout(prices)
    till.scan("glue", 2)
    with pytest.raises(UnknownArticle):
        till.total()
    prices.set_price("glue", 75)
    assert till.total() == 150
    prices.set_price("glue", 80)
    assert till.total() == 160


def test_more_pieces_after_a_new_price():
    prices = shop()
    till = Checkout(prices)
    till.scan("ink", 2)
    assert till.total() == 1000
    prices.set_price("ink", 400)
    till.scan("ink")
    assert till.lines() == [("ink", 3, 1200)]
    with pytest.raises(ValueError):
        till.scan("ink", 0)


def test_price_books_are_independent():
    first, second = shop(), shop()
    assert first.quote("pen", 1) == second.quote("pen", 1)
    first.set_price("pen", 5)
    assert (first.quote("pen", 1), second.quote("pen", 1)) == (5, 120)
