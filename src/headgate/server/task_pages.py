"""Puts pages together: reads what a page is about, and has it rendered."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from headgate.config import builtin_flows, load_flow
from headgate.core import (
    FINAL_STATES,
    SETTLED_STATES,
    Event,
    ReplyReceived,
    Rewrites,
    State,
    Workplace,
    parse_task_text,
    plain,
    say_cost,
    usage_table,
)
from headgate.engine import FLOW_NAMES, RETRIED_STATES, detail_lines, is_mergeable
from headgate.log import TaskRow, build_report, find_pause, load_state
from headgate.server.diff_page import ShownDiff, show_diff
from headgate.server.page_data import (
    SHOWN_STATES,
    Facts,
    list_runs,
    list_tasks,
    read_facts,
    read_setup,
    say_pause,
    shown_state,
)
from headgate.server.problems import RequestRefused
from headgate.server.service import Service
from headgate.server.task_views import TaskView
from headgate.server.templating import after_first_line, first_line, render

LOG_CHARS = 400_000
"""Of a log, on its page; the whole is a link away."""
DIFF_BYTES = 2_000_000
"""Of a diff that is looked into at all."""
MOST_NOTICES, MOST_DIFFS, MOST_FACTS = 200, 8, 1_000
MOST_LINES = 2_000
"""Of what is behind one milestone: the latest."""
FIELDS = ("text", "keep", "non_goals", "boundaries", "flow", "model", "dry_run", "follows")
"""Of the form for a new task."""
_HAS_DIFF = ("PROPOSED", "SUCCESS", "STUCK", "INFRA_ERROR", "CANCELLED")


class Pages:
    """The pages of one repository."""

    def __init__(self, service: Service, *, secured: bool) -> None:
        self._service, self._secured = service, secured
        self._notices: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._diffs: OrderedDict[tuple[str, int], ShownDiff | None] = OrderedDict()
        self._facts: OrderedDict[str, Facts] = OrderedDict()

    def note(self, task_id: str, notices: Sequence[str]) -> None:
        """Keeps what whoever submitted a task should know, for its page."""
        _remember(self._notices, task_id, tuple(notices), MOST_NOTICES)

    def _render(self, template: str, **values: Any) -> str:
        return render(template, repo=self._service.repo.name, secured=self._secured, **values)

    def home(
        self,
        words: str = "",
        shown: str = "",
        page: int = 1,
        typed: Mapping[str, str] | None = None,
        problem: str = "",
        *,
        parts_only: bool = False,
    ) -> str:
        """The start page, or only the parts that change."""
        service = self._service
        store = service.engine.store
        pause, running = find_pause(store), store.running()
        lists = list_tasks(
            store,
            self._find(words, shown),
            page,
            self._facts_of,
            interrupted=running is not None and service.is_interrupted(running),
        )
        lines = service.view(running).lines if running else []
        return self._render(
            "home_parts.html" if parts_only else "home.html",
            lists=lists,
            latest=plain(lines[-1].text) if lines else "",
            activity=service.feed.activity,
            pause=pause,
            pause_said=say_pause(pause) if pause else "",
            words=words,
            shown=shown,
            states=SHOWN_STATES,
            setup=None if parts_only else read_setup(service.repo),
            typed=typed or dict.fromkeys((*FIELDS, "error"), ""),
            problem=problem,
            flows=flow_choices(),
            works=service.worker is not None,
            oob=parts_only,
        )

    async def task(self, task_id: str, after: int | None = None, problem: str = "", added: str = "") -> str:
        """A task's page; with `after`, only what is new in the timeline, and the parts that change."""
        row = self._service.row(task_id)
        view = self._service.view(row)
        state = view.state(row)
        over = state.status in SETTLED_STATES
        report = build_report(state)
        request = parse_task_text(row.task.text).request  # its constraints are shown on their own
        values = {
            "row": row,
            "task": row.task,
            "title": first_line(request),
            "rest": after_first_line(request),
            "shown": shown_state(row, interrupted=self._service.is_interrupted(row)),
            "age": time.time() - row.created,
            "state": state,
            "report": report,
            "cost": say_cost(report.cost, report.usage),
            "usage": usage_table(report.usage),
            "runs": list_runs(
                view.events, {failure.run_id: failure.diagnosis for failure in report.failures}, over=over
            ),
            "moments": view.after(after or 0),
            "last_seq": view.last_seq,
            "elapsed": self._elapsed(row, state),
            "activity": self._activity(row, view),
            "notices": self._notices.get(row.task.id, ()),
            "retries": self._retries(row),
            "works": self._service.worker is not None,
            "undoable": can_undo(row, state),
            "mergeable": is_mergeable(row) and state[Workplace].has_worktree and not state[Rewrites].merged,
            "problem": problem,
            "added": added,
            "kept": self._is_kept(row, view),
        }
        values["diff"] = await self._settled_diff(row, view, state)
        template = "task.html" if after is None else "task_live.html"
        return self._render(template, oob=after is not None, **values)

    async def milestone(self, task_id: str, seq: int, *, part_only: bool) -> str:
        """What is behind a line of the timeline: the same lines as `headgate show --detail` has."""
        row = self._service.row(task_id)
        view = self._service.view(row)
        moment = next((moment for moment in view.lines if moment.seq == seq), None)
        if moment is None:
            raise RequestRefused(404, f"Task {row.task.id} has no such milestone.")
        behind = view.behind(seq)
        kept = self._service.engine.store.contents(row.task.id, seq, behind[-1].seq)
        replies = [event for event in behind if isinstance(event.body, ReplyReceived)]
        found = await asyncio.to_thread(self._detail, behind, kept)
        return self._render(
            "milestone_part.html" if part_only else "milestone.html",
            task=row.task,
            moment=moment,
            lines=found[-MOST_LINES:],
            left_out=max(len(found) - MOST_LINES, 0),
            deleted=bool(replies) and not self._is_kept(row, view),
        )

    def _detail(self, events: Sequence[Event], kept: Mapping[int, str]) -> list[str]:
        folder = self._service.engine.folder
        return [line for event in events for line in detail_lines(event, kept.get(event.seq, ""), folder)]

    async def diff(self, task_id: str) -> str:
        """A task's diff on a page of its own, also while it runs."""
        row = self._service.row(task_id)
        shown = await self._show(row)
        return self._render("diff.html", task=row.task, title=first_line(row.task.text), diff=shown)

    async def log(self, task_id: str, run_id: str) -> str:
        """What a verification run of a task printed."""
        row = self._service.row(task_id)
        view = self._service.view(row)
        runs = list_runs(view.events, over=view.state(row).status in SETTLED_STATES)
        run = next((run for run in runs if run.id == run_id), None)
        if run is None:
            raise RequestRefused(404, f"Task {row.task.id} has no run {run_id}.")
        log = await self._service.log(run_id)
        return self._render("log.html", task=row.task, run=run, log=log[-LOG_CHARS:], whole=len(log))

    def _find(self, words: str, shown: str) -> list[TaskRow] | None:
        """The tasks with these words and in this state, the latest first; None where neither is asked for."""
        if not words.strip() and not shown:
            return None
        return [row for row in self._service.rows(words) if shown in ("", shown_state(row))]

    def _facts_of(self, row: TaskRow) -> Facts:
        """The figures of an ended task, which stay as they are."""
        if row.task.id not in self._facts:
            facts = read_facts(load_state(self._service.engine.store, row))
            _remember(self._facts, row.task.id, facts, MOST_FACTS)
        return self._facts[row.task.id]

    def _elapsed(self, row: TaskRow, state: State) -> float:
        """How long it has been worked on, up to now if it runs."""
        if row.state != "RUNNING" or not state.clock.started_at:
            return state.seconds
        return state.clock.lead + max(time.time() - state.clock.started_at - state.clock.paused, 0.0)

    def _activity(self, row: TaskRow, view: TaskView) -> dict[str, Any]:
        """What the task is doing now. Nothing else is known right after its start, or of another process."""
        told = self._service.feed.activity
        if told["task"] == row.task.id and told["text"]:
            return told
        latest = plain(view.lines[-1].text) if view.lines else "Starting"
        return {"task": row.task.id, "text": latest, "lines": []}

    def _is_kept(self, row: TaskRow, view: TaskView) -> bool:
        """Whether the conversation with the model can be read."""
        replies = (event.seq for event in view.events if isinstance(event.body, ReplyReceived))
        first = next(replies, None)
        return first is not None and bool(self._service.engine.store.contents(row.task.id, first, first))

    def _retries(self, row: TaskRow) -> list[TaskRow]:
        """The tasks that try this one again."""
        return self._service.engine.store.retries(row.task.id) if row.state in RETRIED_STATES else []

    async def _settled_diff(self, row: TaskRow, view: TaskView, state: State) -> ShownDiff | None:
        """The diff of a task that is settled; None if there is none. It stays as it is, and is kept."""
        if row.state not in _HAS_DIFF or not state.files_changed:
            return None
        key = row.task.id, view.last_seq
        if key not in self._diffs:
            try:
                shown = await self._show(row)
            except RequestRefused:
                shown = None
            _remember(self._diffs, key, shown, MOST_DIFFS)
        return self._diffs[key]

    async def _show(self, row: TaskRow) -> ShownDiff:
        diff = await self._service.diff(row)
        return await asyncio.to_thread(show_diff, diff[:DIFF_BYTES].decode("utf-8", "replace"))


def can_undo(row: TaskRow, state: State) -> bool:
    """Whether something of an ended task is in the working tree, as far as the log tells."""
    is_here = state[Rewrites].merged or not state[Workplace].base
    return row.state in FINAL_STATES and bool(state.files_changed) and is_here and not row.undone


def _remember(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


@lru_cache(maxsize=1)
def flow_choices() -> tuple[tuple[str, str], ...]:
    """The flows that ship with Headgate: name and description."""
    return tuple((name, plain(load_flow(name, Path(), FLOW_NAMES).description)) for name in builtin_flows())
