"""The floor: hand-written HTTP, each message encoded once, json of the standard library.

Variants: empty, or `sqlite`, which commits each turn to SQLite with synchronous=FULL.
"""

import asyncio
import json
import sqlite3
from urllib.parse import urlsplit

from session import SYSTEM, TASK, TOOLS, Place, measure, read_file

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Log:
    """A table of messages."""

    def __init__(self, place: Place) -> None:
        self._database = None
        if place.variant == "sqlite":
            self._database = sqlite3.connect(place.folder / "log.db", isolation_level=None, timeout=30)
            self._database.execute("pragma journal_mode=wal")
            self._database.execute("pragma synchronous=full")
            self._database.execute("create table if not exists log (id integer primary key, body blob)")

    def add(self, messages: list[bytes]) -> None:
        """Commits messages."""
        if self._database is not None:
            self._database.execute("begin immediate")
            self._database.executemany("insert into log (body) values (?)", [(each,) for each in messages])
            self._database.execute("commit")


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    to = urlsplit(url)
    reader, writer = await asyncio.open_connection(to.hostname, to.port, limit=1 << 20)
    head = (
        f"POST {to.path}/chat/completions HTTP/1.1\r\nhost: {to.netloc}\r\ncontent-type: application/json\r\n"
    )
    before = f'{{"model":"fake","tools":{encode(TOOLS)},"messages":['.encode()
    first = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    history = bytearray(",".join(map(encode, first)).encode())
    log = Log(place)
    try:
        while True:
            length = len(before) + len(history) + 2
            writer.write(f"{head}content-length: {length}\r\n\r\n".encode() + before)
            writer.write(bytes(history))
            writer.write(b"]}")
            answered = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answered.partition(b"content-length:")[2].partition(b"\r\n")[0])
            message = json.loads(await reader.readexactly(length))["choices"][0]["message"]
            said = [encode(message).encode()]
            for call in message.get("tool_calls", ()):
                result = read_file(**json.loads(call["function"]["arguments"]))
                answer = {"role": "tool", "tool_call_id": call["id"], "content": result}
                said.append(encode(answer).encode())
            log.add(said)
            if "tool_calls" not in message:
                return str(message["content"])
            history += b"," + b",".join(said)
    finally:
        writer.close()


measure(session, log="log.db*")
