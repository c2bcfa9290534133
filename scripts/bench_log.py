"""What the log costs: CPU per turn against a bare SQLite insert, bytes against content, flat or not.

    python scripts/bench_log.py [TURNS]

A turn is what the loop commits for one reply with one call: the reply with the call's start, then its finish;
three events, two contents, two commits, taken through the task's log, the writer's thread and the fold.

The baseline is a table with a number and a text, on the same disk, with the store's own settings (page size,
WAL, synchronous, secure_delete: the store's own function opens its connection). It inserts the same two
contents in two commits as well, from the main thread, and no event at all. Turns of both alternate within one
process, and all CPU of the process counts, user and system, whichever thread used it. Flat means: the usual
(median) turn at the end costs what the usual turn after the first 50 costs; checkpoints come now and then.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from headgate.core import ReplyReceived, ToolFinished, ToolStarted
from headgate.core.task import Task
from headgate.log.database import connect
from headgate.log.log import Bus, TaskLog
from headgate.log.store import Store

REPLY = '{"content": "' + "I will read the next module. " * 6 + '"}'
RESULT = ("def handler(event, context):\n    return process(event)\n" * 40)[:2048]
ROUNDS = 5


def take_bare_turn(db: sqlite3.Connection) -> None:
    for text in (REPLY, RESULT):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO log (body) VALUES (?)", (text,))
        db.execute("COMMIT")


async def take_turn(log: TaskLog, turn: int) -> None:
    reply = ReplyReceived(
        prompt_tokens=1, completion_tokens=1, cached_tokens=0, finish="calls", calls=("shell",)
    )
    log.record("work", turn, reply, REPLY)
    log.record("work", turn, ToolStarted(call=f"c{turn}", name="shell", category="run", target="make test"))
    await log.commit()
    log.record("work", turn, ToolFinished(call=f"c{turn}", name="shell", ok=True), RESULT)
    await log.commit()


async def measure(folder: Path, turns: int) -> tuple[list[float], list[float], int]:
    """CPU seconds of each bare turn and of each of ours, and how large the store has become."""
    db = connect(folder / "bare.db")
    db.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)")
    store = Store(folder / "headgate.db")
    task = store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 0.0)
    log = TaskLog(store, Bus(), task, time.time)
    bare, ours = [], []
    for turn in range(turns):
        start = time.process_time()
        take_bare_turn(db)
        middle = time.process_time()
        await take_turn(log, turn)
        ours.append(time.process_time() - middle)
        bare.append(middle - start)
    db.close()
    store.close()
    return bare, ours, (folder / "headgate.db").stat().st_size


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    ratios, growths, size, cost = [], [], 0, 0.0
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as place:
            bare, ours, size = asyncio.run(measure(Path(place), turns))
        cost = 1e6 * sum(ours) / turns
        ratios.append(sum(ours) / sum(bare))
        growths.append(median(ours[-50:]) / median(ours[50:100]))
    content = turns * (len(REPLY) + len(RESULT))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"turns                       {turns}, {ROUNDS} rounds, medians; {cost:.0f} µs of CPU per turn")
    print(f"CPU per turn / bare insert  {median(ratios):.2f}  (at most 3; the rounds: {spread})")
    print(f"last 50 turns / turns 50+   {median(growths):.2f}  (flat is 1)")
    print(f"bytes on disk / content     {size / content:.2f}  (at most 2)")


if __name__ == "__main__":
    main()
