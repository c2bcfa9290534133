"""What the log costs: CPU per turn against a bare SQLite insert, bytes against content, flat or not.

    python scripts/bench_log.py [TURNS]

A turn is what the loop commits for one reply with one call: the reply with the call's start, then its finish.
The bare insert puts the same two contents into one table with the same settings, in two commits as well.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from headgate.core.events import ReplyReceived, ToolFinished, ToolStarted
from headgate.core.task import Task
from headgate.engine.bus import Bus
from headgate.engine.log import TaskLog
from headgate.engine.store import Store

REPLY = '{"content": "' + "I will read the next module. " * 6 + '"}'
RESULT = ("def handler(event, context):\n    return process(event)\n" * 40)[:2048]
ROUNDS = 5


def bare(folder: Path, turns: int) -> list[float]:
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)")
    costs = []
    for _ in range(turns):
        started = time.process_time()
        for text in (REPLY, RESULT):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO log (body) VALUES (?)", (text,))
            db.execute("COMMIT")
        costs.append(time.process_time() - started)
    db.close()
    return costs


async def headgate(folder: Path, turns: int) -> tuple[list[float], int]:
    store = Store(folder / "headgate.db")
    task = store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 0.0)
    log = TaskLog(store, Bus(), task, time.time)
    costs = []
    for turn in range(turns):
        reply = ReplyReceived(
            prompt_tokens=1, completion_tokens=1, cached_tokens=0, finish="calls", calls=("read_file",)
        )
        started = time.process_time()
        log.record("work", turn, reply, REPLY)
        log.record(
            "work", turn, ToolStarted(call=f"c{turn}", name="shell", category="run", target="make test")
        )
        await log.commit()
        log.record("work", turn, ToolFinished(call=f"c{turn}", name="shell", ok=True), RESULT)
        await log.commit()
        costs.append(time.process_time() - started)
    store.close()
    db = sqlite3.connect(folder / "headgate.db")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return costs, (folder / "headgate.db").stat().st_size


def mean(costs: list[float]) -> float:
    return 1e6 * sum(costs) / len(costs)


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    ratios, growths, size = [], [], 0
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as place:
            plain = bare(Path(place), turns)
            costs, size = asyncio.run(headgate(Path(place), turns))
        ratios.append(mean(costs) / mean(plain))
        growths.append(mean(costs[-50:]) / mean(costs[50:100]))
    content = turns * (len(REPLY) + len(RESULT))
    print(f"turns                       {turns}, {ROUNDS} rounds, medians")
    print(f"CPU per turn / bare insert  {sorted(ratios)[ROUNDS // 2]:.2f}  (at most 3)")
    print(f"last 50 turns / turns 50+   {sorted(growths)[ROUNDS // 2]:.2f}  (flat is 1)")
    print(f"bytes on disk / content     {size / content:.2f}  (at most 2)")


if __name__ == "__main__":
    main()
