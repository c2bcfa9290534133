"""Memories: texts that models have saved in a repository, for later tasks to find.

The store holds them in a plain table. The index for a search (FTS5) is made in memory, for that search: there
are few texts, what is deleted is gone, and no table of the store depends on how SQLite was built.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from typing import Any

from headgate.errors import ToolFailed
from headgate.features.memory.texts import MEMORY_TAGS, Memory, SavedMemory, normal_form, words_of
from headgate.first_use import dataclass
from headgate.log import RowDamaged, Store, store_errors

MOST_MEMORIES = 1_000
"""How many a repository may have. None is dropped to make room."""
QUERY_WORDS = 50
_PART_CHARS = 3
"""How long a word must be to be looked for inside other words. One in another script may be shorter, because
not every script puts spaces between words."""
_COLUMNS = "n, text, tags, task, at"


class MemoriesFull(ToolFailed):
    """No further text can be saved."""

    slug = "memories_full"


@dataclass(frozen=True, slots=True)
class Memories:
    """The memories of a repository. Methods block, but not for long."""

    store: Store

    def all(self) -> list[Memory]:
        """Every memory, oldest first."""
        with store_errors(self.store.path):
            rows = self.store.db.execute(f"SELECT {_COLUMNS} FROM memories ORDER BY n").fetchall()
            return [_decode(*row) for row in rows]

    def save(self, text: str, tags: Sequence[str], task: str, at: float) -> SavedMemory:
        """Saves a text. If it is there already, that one stays and gets the tags that it lacks."""
        key = sha256(normal_form(text).encode()).hexdigest()
        with self.store.writing() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM memories WHERE key = ?", (key,)).fetchone()
            if row is not None:
                return _add_tags(db, _decode(*row), tags)
            count = int(db.execute("SELECT COUNT(*) FROM memories").fetchone()[0])
            if count >= MOST_MEMORIES:
                raise MemoriesFull(
                    f"Not saved: there are {count:,} memories already, which is the most."
                    " People delete some with headgate memory forget."
                )
            number = db.execute(
                "INSERT INTO memories (key, text, tags, task, at) VALUES (?, ?, ?, ?, ?)",
                (key, text, " ".join(tags), task, at),
            ).lastrowid
        return SavedMemory(Memory(f"m{number}", text, tuple(tags), task, at))

    def forget(self, memory_id: str | None) -> int:
        """Deletes a memory, or all of them (None); returns how many there were."""
        where, values = "", list[int]()
        if memory_id is not None:
            digits = memory_id.lower().removeprefix("m")
            if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
                return 0
            where, values = " WHERE n = ?", [int(digits)]
        with self.store.writing() as db:
            count = db.execute(f"DELETE FROM memories{where}", values).rowcount
        if count:
            self.store.erase_freed_pages()
        return count


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """What the tools of one task save and find."""

    memories: Memories
    task: str
    now: Callable[[], float]

    async def save(self, text: str, tags: Sequence[str]) -> SavedMemory:
        """Saves a text; see `Memories.save`.

        In the event loop, because the connection has one transaction at a time: a thread could get into that
        of somebody who cancels a task.
        """
        return self.memories.save(text, tags, self.task, self.now())

    async def search(self, query: str) -> list[Memory]:
        """What a query finds, the best first."""
        return await asyncio.to_thread(search_memories, self.memories.all(), query)


def _add_tags(db: sqlite3.Connection, found: Memory, tags: Sequence[str]) -> SavedMemory:
    merged = tuple(dict.fromkeys([*found.tags, *tags]))[: max(MEMORY_TAGS, len(found.tags))]
    if merged != found.tags:
        db.execute("UPDATE memories SET tags = ? WHERE n = ?", (" ".join(merged), int(found.id[1:])))
    memory = Memory(found.id, found.text, merged, found.task, found.at)
    return SavedMemory(memory, is_new=False, added_tags=merged[len(found.tags) :])


def _decode(number: Any, text: Any, tags: Any, task: Any, at: Any) -> Memory:
    if not (isinstance(text, str) and isinstance(tags, str) and isinstance(task, str)):
        raise RowDamaged(f"memory m{number} has values of a wrong type")
    if not isinstance(at, float | int):
        raise RowDamaged(f"memory m{number} has no time")
    return Memory(f"m{number}", text, tuple(tags.split()), task, at)


def search_memories(memories: Sequence[Memory], query: str) -> list[Memory]:
    """The memories that have a word of the query, the best first; then those that have it inside a word."""
    words = list(dict.fromkeys(words_of(query)))[:QUERY_WORDS]
    if not words or not memories:
        return []
    whole = _ranked(memories, words)
    parts = [word for word in words if len(word) >= _PART_CHARS or not word.isascii()]
    texts = [f"{normal_form(memory.text)}\n{normal_form(' '.join(memory.tags))}" for memory in memories]
    hits = {place: sum(word in text for word in parts) for place, text in enumerate(texts)}
    inside = sorted((place for place in hits if hits[place]), key=lambda place: (-hits[place], -place))
    return [memories[place] for place in dict.fromkeys([*whole, *inside])]


def _ranked(memories: Sequence[Memory], words: Sequence[str]) -> Iterator[int]:
    """The places of the memories that have one of the words, or another form of it, by bm25."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE words USING fts5(text, tags, tokenize = 'porter unicode61')")
        # SQLite has its own idea of where a word ends, so it is given nothing but words.
        rows = (
            (place, " ".join(words_of(memory.text)), " ".join(words_of(" ".join(memory.tags))))
            for place, memory in enumerate(memories)
        )
        db.executemany("INSERT INTO words (rowid, text, tags) VALUES (?, ?, ?)", rows)
        # Words have no quotes in them, and in quotes nothing is syntax.
        asked = " OR ".join(f'"{word}"' for word in words)
        found = db.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, 1.0, 2.0), rowid DESC", (asked,)
        )
        yield from (int(place) for (place,) in found)
