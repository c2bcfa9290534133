"""Ports of the loop that do nothing, for tests of what is around them."""


class UnchangedTree:
    """A tree in which nothing happens."""

    async def changed_files(self) -> tuple[str, ...]:
        return ()

    async def mark(self) -> str:
        return ""

    async def diff_since(self, mark: str) -> str:
        return ""

    def hash_of(self, path: str) -> str | None:
        return None

    async def left_behind(self, mark: str) -> tuple[str, ...]:
        return ()
