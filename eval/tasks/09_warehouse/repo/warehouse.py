"""A warehouse: how many pieces of each item there are, and on which shelf."""

from shelf_index import ShelfIndex


class StockError(ValueError):
    """The stock does not allow what was asked."""


class Warehouse:
    """Keeps the number of pieces of each item and its one shelf."""

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}
        self._index = ShelfIndex()

    def receive(self, item: str, pieces: int, shelf: str) -> None:
        """Add pieces; a new item is put on `shelf`, a known one stays where it is."""
        if pieces < 1:
            raise StockError("nothing to receive")
        if item not in self._pieces:
            self._index.place(item, shelf)
        self._pieces[item] = self._pieces.get(item, 0) + pieces

    def ship(self, item: str, pieces: int) -> None:
        """Take pieces out; an item with none left leaves its shelf."""
        if pieces > self._pieces.get(item, 0):
            raise StockError(f"only {self._pieces.get(item, 0)} of {item} in stock")
        self._pieces[item] -= pieces
        if self._pieces[item] == 0:
            del self._pieces[item]
            self._index.drop(item)

    def move(self, item: str, shelf: str) -> None:
        """Put an item on another shelf."""
        if item not in self._pieces:
            raise StockError(f"no {item} in stock")
        self._index.place(item, shelf)

    def shelf_of(self, item: str) -> str | None:
        """Return the shelf of an item, None when it is not in stock."""
        return self._index.shelf_of(item)

    def overview(self) -> dict[str, list[str]]:
        """Return the sorted items of each shelf that holds any."""
        return {shelf: self._index.items_on(shelf) for shelf in self._index.shelves()}
