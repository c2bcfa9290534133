"""Reads the rows of a damaged SQLite file without SQLite, which gives up at the first bad page.

Nothing is written, nothing is trusted, and every page is read at most once, so the file may hold anything.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Value = str | bytes | int | float | None

MAGIC = b"SQLite format 3\0"
PAGE_BYTES = 8192
"""The page size of a file whose header cannot be read."""
WAL_HEADER, FRAME_HEADER = 32, 24
INTERIOR, LEAF = 0x05, 0x0D
"""The first byte of a table's pages."""


class _Unreadable(Exception):
    """A page, cell or value makes no sense."""


@dataclass
class Rows:
    """What could be read: rows with their numbers, and whether that is everything."""

    found: list[tuple[int, tuple[Value, ...]]] = field(default_factory=list)
    complete: bool = True


class Pages:
    """The pages of a database file, with those that its write-ahead log holds over them."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes() if path.exists() else b""
        wal = path.with_name(path.name + "-wal")
        log = wal.read_bytes() if wal.exists() else b""
        self.size = _page_size(self._data, log)
        self._newer = dict(_committed_frames(log, self.size))
        self.count = max([-(-len(self._data) // self.size), *self._newer])
        self._reached: set[int] = set()
        self._free = self._free_pages()

    def schema(self) -> dict[str, int]:
        """The first page of each table, as far as page 1 says."""
        return {
            values[1]: values[3]
            for _, values in self.read_table(1).found
            if len(values) == 5 and values[0] == "table" and isinstance(values[1], str)
            if isinstance(values[3], int)
        }

    def read_table(self, root: int) -> Rows:
        """Every row that can be reached from a table's first page."""
        rows, waiting = Rows(), [root]
        while waiting:
            number = waiting.pop()
            if number in self._reached or number in self._free:
                rows.complete = False
                continue
            self._reached.add(number)
            try:
                page = self._page(number)
                start = 100 if number == 1 else 0
                if page[start] == INTERIOR:
                    waiting += reversed(list(_children(page, start)))
                elif page[start] == LEAF:
                    self._read_leaf(page, start, rows)
                else:
                    rows.complete = False
            except (_Unreadable, IndexError):
                rows.complete = False
        return rows

    def stray_rows(self) -> list[tuple[int, tuple[Value, ...]]]:
        """Rows that no table leads to any more though their page is not free."""
        rows = Rows()
        for number in range(2, self.count + 1):
            if number not in self._reached and number not in self._free:
                try:
                    page = self._page(number)
                    if page[0] == LEAF:
                        self._read_leaf(page, 0, rows)
                except (_Unreadable, IndexError):
                    continue
        return rows.found

    def _page(self, number: int) -> bytes:
        page = self._newer.get(number) or self._data[(number - 1) * self.size : number * self.size]
        if number < 1 or len(page) != self.size:
            raise _Unreadable
        return page

    def _free_pages(self) -> set[int]:
        """Pages that hold nothing any more; as far as their list can be read."""
        free: set[int] = set()
        try:
            trunk = _number(self._page(1), 32, 4)
            while trunk and trunk not in free:
                free.add(trunk)
                page = self._page(trunk)
                length = min(_number(page, 4, 4), self.size // 4 - 2)
                free |= {_number(page, 8 + 4 * index, 4) for index in range(length)}
                trunk = _number(page, 0, 4)
        except (_Unreadable, IndexError):
            pass  # then a free page may be taken for a lost one; what it holds is checked like all the rest
        return free - {1}

    def _read_leaf(self, page: bytes, start: int, rows: Rows) -> None:
        count = _number(page, start + 3, 2)
        used = start + 8 + 2 * count
        if used > self.size:
            raise _Unreadable
        spent = used + _slack(page, start, used)
        for index in range(count):
            try:
                key, values, length = self._cell(page, _number(page, start + 8 + 2 * index, 2))
            except (_Unreadable, IndexError):
                rows.complete = False
                continue
            spent += length
            rows.found.append((key, values))
        if spent != self.size:
            rows.complete = False

    def _cell(self, page: bytes, place: int) -> tuple[int, tuple[Value, ...], int]:
        """A row's number, its values, and how much of the page it takes."""
        length, start = _varint(page, place)
        key, start = _varint(page, start)
        local, most = length, self.size - 35
        if length > most:
            least = (self.size - 12) * 32 // 255 - 23
            local = least + (length - least) % (self.size - 4)
            local = local if local <= most else least
        if length < 1 or length > self.count * self.size or start + local > self.size:
            raise _Unreadable
        payload, end = page[start : start + local], start + local
        if local < length:
            payload += self._overflow(_number(page, end, 4), length - local)
            end += 4
        return key, tuple(_values(payload)), max(end - place, 4)

    def _overflow(self, number: int, length: int) -> bytes:
        parts = []
        while length > 0:
            page = self._page(number)
            if page[0] in (INTERIOR, LEAF):
                raise _Unreadable
            parts.append(page[4 : 4 + length])
            length -= len(parts[-1])
            number = _number(page, 0, 4)
        return b"".join(parts)


def _page_size(data: bytes, wal: bytes) -> int:
    given = int.from_bytes(data[16:18], "big") if data.startswith(MAGIC) else _number(wal, 8, 4) if wal else 0
    given = 65536 if given == 1 else given
    return given if 512 <= given <= 65536 and given & (given - 1) == 0 else PAGE_BYTES


def _committed_frames(wal: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """The pages in a write-ahead log up to its last whole transaction, each checked by its sum."""
    if len(wal) < WAL_HEADER or _number(wal, 0, 4) & ~1 != 0x377F0682 or _number(wal, 8, 4) != size:
        return
    order = ">" if _number(wal, 0, 4) & 1 else "<"
    sums = _checksum(wal[:24], (0, 0), order)
    pending: list[tuple[int, bytes]] = []
    for place in range(WAL_HEADER, len(wal) - FRAME_HEADER - size + 1, FRAME_HEADER + size):
        head = wal[place : place + FRAME_HEADER]
        page = wal[place + FRAME_HEADER : place + FRAME_HEADER + size]
        sums = _checksum(page, _checksum(head[:8], sums, order), order)
        if head[8:16] != wal[16:24] or sums != (_number(head, 16, 4), _number(head, 20, 4)):
            return
        pending.append((_number(head, 0, 4), page))
        if _number(head, 4, 4):
            yield from pending
            pending.clear()


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    for left, right in struct.iter_unpack(order + "II", data):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second


def _children(page: bytes, start: int) -> Iterator[int]:
    count = _number(page, start + 3, 2)
    if start + 12 + 2 * count > len(page):
        raise _Unreadable
    for index in range(count):
        yield _number(page, _number(page, start + 12 + 2 * index, 2), 4)
    yield _number(page, start + 8, 4)


def _slack(page: bytes, start: int, used: int) -> int:
    """The bytes of a page that belong to no row."""
    content = _number(page, start + 5, 2) or 65536
    slack = content - used + page[start + 7]
    block = _number(page, start + 1, 2)
    while block and slack <= len(page):
        slack += max(_number(page, block + 2, 2), 1)
        block = _number(page, block, 2)
    return slack


def _values(payload: bytes) -> Iterator[Value]:
    header, place = _varint(payload, 0)
    types = []
    while place < header:
        kind, place = _varint(payload, place)
        types.append(kind)
    if place != header:
        raise _Unreadable
    for kind in types:
        length = (kind - 12) // 2 if kind >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]
        if place + length > len(payload):
            raise _Unreadable
        yield _value(kind, payload[place : place + length])
        place += length


def _value(kind: int, raw: bytes) -> Value:
    if kind >= 12:
        if kind % 2 == 0:
            return raw
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise _Unreadable from error
    if kind == 0:
        return None
    if kind == 7:
        return float(struct.unpack(">d", raw)[0])
    return kind - 8 if kind in (8, 9) else int.from_bytes(raw, "big", signed=True)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = data[place + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + index + 1
    return value << 8 | data[place + 8], place + 9


def _number(data: bytes, place: int, length: int) -> int:
    part = data[place : place + length]
    if len(part) != length:
        raise _Unreadable
    return int.from_bytes(part, "big")
