"""A cache of limited size that forgets what was not used for the longest time."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class RecentCache:
    """Keeps at most `capacity` entries; the least recently used one goes first."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[str, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def keys(self) -> list[str]:
        """Return the keys, least recently used first."""
        return list(self._entries)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, which counts as a use, or `default`."""
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        return self._entries[key]

    def put(self, key: str, value: Any) -> None:
        """Store a value, which counts as a use, and evict entries above the capacity."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self.capacity:
            self._entries.popitem(last=False)

    def get_or_make(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the stored value of `key`, or make, store and return a new one."""
        if key in self._entries:
            return self.get(key)
        self.misses += 1
        value = make()
        self.put(key, value)
        return value
