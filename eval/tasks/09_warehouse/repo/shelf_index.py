"""Where items are: looked up by item and by shelf."""


class ShelfIndex:
    """Two-way index of items and shelves; each item is on at most one shelf."""

    def __init__(self) -> None:
        self._shelf_of: dict[str, str] = {}
        self._items_on: dict[str, set[str]] = {}

    def place(self, item: str, shelf: str) -> None:
        """Put an item on a shelf, wherever it was before."""
        self._shelf_of[item] = shelf
        self._items_on.setdefault(shelf, set()).add(item)

    def drop(self, item: str) -> None:
        """Take an item off its shelf."""
        self._shelf_of.pop(item)

    def shelf_of(self, item: str) -> str | None:
        """Return the shelf of an item."""
        return self._shelf_of.get(item)

    def items_on(self, shelf: str) -> list[str]:
        """Return the sorted items on a shelf."""
        return sorted(self._items_on.get(shelf, ()))

    def shelves(self) -> list[str]:
        """Return the sorted names of all shelves that hold an item."""
        return sorted(self._items_on)
