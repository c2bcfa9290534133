"""Adding up what a customer pays."""

from price_book import PriceBook


class Checkout:
    """The articles of one customer, charged by a price book."""

    def __init__(self, prices: PriceBook) -> None:
        self._prices = prices
        self._quantities: dict[str, int] = {}

    def scan(self, article: str, quantity: int = 1) -> None:
        """Add pieces of an article."""
        if quantity < 1:
            raise ValueError("scan at least one piece")
        self._quantities[article] = self._quantities.get(article, 0) + quantity

    def lines(self) -> list[tuple[str, int, int]]:
        """Return article, quantity and cents of everything scanned."""
        return [
            (article, quantity, self._prices.quote(article, quantity))
            for article, quantity in self._quantities.items()
        ]

    def total(self) -> int:
        """Return the sum in cents."""
        return sum(cents for _, _, cents in self.lines())
