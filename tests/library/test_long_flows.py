"""Flows of many stages: the eightieth takes no more work, and leaves no more behind, than the twentieth."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from headgate import Callbacks, Checkpoint
from headgate.core import Event, Reply, Request
from headgate.library.following import RECENT
from library.test_logs import Worker, start_chain

STAGES = 100


class Observer(Worker):
    """Looks at the log, the memory and the work done each time that a stage begins."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self.calls_made = 0
        self.seen: list[dict[str, int]] = []

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        if self.calls % 2 == 0:
            kept = gc.get_objects()
            events = sum(isinstance(found, Event) for found in kept)
            classes = sum(isinstance(found, type) for found in kept)
            size = self._log.stat().st_size
            self.seen.append({"bytes": size, "events": events, "classes": classes, "calls": self.calls_made})
        return await super().reply(request, on_delta)

    def of_stages(self, first: int, last: int) -> dict[str, int]:
        before, after = self.seen[first], self.seen[last]
        return {name: after[name] - before[name] for name in before}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts the calls of Headgate's own functions. Only objects that are new are looked at."""

        def count(frame: FrameType, what: str, argument: Any) -> None:
            self.calls_made += what == "call" and "/headgate/" in frame.f_code.co_filename

        gc.freeze()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(None)


async def test_a_stage_takes_as_much_work_wherever_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    model = Observer(log)
    run, _ = start_chain(STAGES, log, model)
    with model.counting():
        assert (await run.result()).status == "completed"
    # Followers are told in tasks of their own, which may run during one stage or the next.
    early, late = model.of_stages(10, 30), model.of_stages(70, 90)
    assert abs(late["bytes"] - early["bytes"]) < 400  # numbers have more digits
    assert late["calls"] < 1.05 * early["calls"]
    assert late["classes"] == 0
    kept = [seen["events"] - model.seen[0]["events"] for seen in model.seen]
    assert max(kept) < RECENT + 50
    assert kept[80] <= kept[40]


async def test_a_save_writes_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "saved.jsonl"
    written: list[tuple[int, int]] = []

    async def look(*told: object) -> None:
        await run.save()
        backup = path.with_name("saved.jsonl.backup")
        written.append((path.stat().st_ino, backup.stat().st_ino if backup.exists() else 0))

    run, _ = start_chain(
        40,
        tmp_path / "log.jsonl",
        checkpoint=Checkpoint(path=str(path), auto_save=False),
        callbacks=Callbacks(on_progress=look),
    )
    await run.result()
    assert len(written) == 40
    # Neither file is replaced by another one: both grow.
    assert len({file for file, _ in written}) == 1
    assert len({backup for _, backup in written if backup}) == 1
    main, backup = path.read_bytes(), path.with_name("saved.jsonl.backup").read_bytes()
    assert main.startswith(backup)
    assert len(main) > len(backup)
