"""What a process that died has written of a diff is not taken for something else by the next one."""

from pathlib import Path

import pytest
from undo_cases import LINES, edit, make_bench

from headgate.core import ProposalMade, Rewrite, RewriteFinished, RewriteStarted, Task
from headgate.engine.bring_in import bring_in, own_workspace, settle_rewrite, store_record
from headgate.log import Draft, Folder, Store
from headgate.run import hashes_of
from headgate.tree import ProposedChange, encode_changes, git


class Died(Exception):
    """Stands for the end of the process."""


async def test_a_file_that_has_become_a_folder_is_written_once(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "settings").write_text("old\n")
    folder = Folder(tmp_path)
    folder.create()
    store = Store(folder.database)
    store.add_task(lambda name: Task(id=name, text="Do it.", goal="Do it."), 0.0)
    changes = [
        ProposedChange("settings", b"old\n", None, None, 0o644),
        ProposedChange("settings/all.yaml", None, b"new\n", 0o755, None),
    ]
    log = store_record(store, "t1", lambda: 0.0)

    async def record(body: Rewrite, content: str | None) -> None:
        if isinstance(body, RewriteFinished):
            raise Died
        await log(body, content)

    started = RewriteStarted(purpose="undo", changes=tuple(map(hashes_of, changes)))
    with pytest.raises(Died):
        await bring_in(own_workspace(folder), started, changes, record)
    await settle_rewrite(folder, store, lambda: 0.0)
    assert isinstance(store.events("t1")[-1].body, RewriteFinished)
    assert (tmp_path / "settings/all.yaml").read_text() == "new\n"
    store.close()


async def test_a_proposal_that_no_longer_fits_after_a_crash_is_refused_once(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    store = bench.engine.store
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), dry_run=True)
    task = await bench.engine.apply("t1")
    store.claim()
    change = ProposedChange(
        "a.txt", LINES.encode(), LINES.replace("line 3\n", "LINE 3\n").encode(), None, 0o644
    )
    (made,) = (event.body for event in store.events("t1") if isinstance(event.body, ProposalMade))
    started = RewriteStarted(purpose="apply", baseline=made.before, changes=(hashes_of(change),))
    await store.append("t1", [Draft("", 0, 0.0, started, encode_changes([change]))])
    bench.put("a.txt", LINES.replace("line 3\n", "mine\n"))
    report = await bench.engine.run(task)
    kinds = [event.body.kind_in_log for event in store.events("t1")]
    assert (report.state, kinds.count("apply_refused"), kinds[-1]) == ("PROPOSED", 1, "apply_refused")
    assert bench.text("a.txt") == LINES.replace("line 3\n", "mine\n")
    store.close()
