"""Prices of articles in cents, with rebates for larger quantities."""


class UnknownArticle(KeyError):
    """An article has no price."""


class PriceBook:
    """Prices and rebates; quotes are remembered because they are asked for often."""

    def __init__(self) -> None:
        self._prices: dict[str, int] = {}
        self._rebates: list[tuple[int, int]] = []
        self._quotes: dict[tuple[str, int], int] = {}

    def set_price(self, article: str, cents: int) -> None:
        """Set the price of one piece."""
        if cents < 0:
            raise ValueError("a price is not negative")
        self._prices[article] = cents

    def set_rebate(self, quantity: int, percent: int) -> None:
        """Grant a rebate from the given quantity on."""
        self._rebates.append((quantity, percent))
        self._rebates.sort()
        self._quotes.clear()

    def rebate_for(self, quantity: int) -> int:
        """Return the percentage granted for a quantity."""
        percent = 0
        for least, granted in self._rebates:
            if quantity >= least:
                percent = granted
        return percent

    def quote(self, article: str, quantity: int) -> int:
        """Return what so many pieces cost, in cents."""
        key = (article, quantity)
        if key not in self._quotes:
            if article not in self._prices:
                raise UnknownArticle(article)
            full = self._prices[article] * quantity
            self._quotes[key] = full - full * self.rebate_for(quantity) // 100
        return self._quotes[key]
