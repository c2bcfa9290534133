import pytest

from checkout import Checkout
from price_book import PriceBook, UnknownArticle


def shop():
    prices = PriceBook()
    prices.set_price("pen", 120)
    prices.set_price("ink", 500)
    return prices


def test_total_of_several_articles():
    till = Checkout(shop())
    till.scan("pen", 2)
    till.scan("ink")
    assert till.lines() == [("pen", 2, 240), ("ink", 1, 500)]
    assert till.total() == 740


def test_rebate_from_a_quantity_on():
    prices = shop()
    prices.set_rebate(10, 5)
    assert [prices.quote("pen", 9), prices.quote("pen", 10)] == [1080, 1140]


def test_new_rebate_applies_at_once():
    prices = shop()
    assert prices.quote("pen", 10) == 1200
    prices.set_rebate(10, 50)
    assert prices.quote("pen", 10) == 600


def test_new_price_applies_at_once():
    prices = shop()
    till = Checkout(prices)
    till.scan("pen")
    assert till.total() == 120
    prices.set_price("pen", 150)
    assert till.total() == 150


def test_next_customer_pays_the_new_price():
    prices = shop()
    assert prices.quote("ink", 1) == 500
    prices.set_price("ink", 450)
    till = Checkout(prices)
    till.scan("ink")
    assert till.lines() == [("ink", 1, 450)]


def test_article_without_a_price():
    with pytest.raises(UnknownArticle):
        shop().quote("glue", 1)
