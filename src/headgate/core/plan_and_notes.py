"""What stages pass on: the plan that a model wrote, with its steps as stages, and the notes of stages.

A note is the model's own text, and a model may write any amount. It is bounded in the log, and bounded again
in what later stages are told. Whatever is cut is marked with what it was.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from headgate.core.events import Note, PlanItem, Status
from headgate.core.flow import Stage
from headgate.core.text import cut_text, share_out

REPLACED = "the plan was rewritten without it"
_SLUG_CHARS = 20


def expand_steps(
    stages: Sequence[Stage], plan: Sequence[PlanItem], since: Mapping[str, int]
) -> tuple[Stage, ...]:
    """The stages of one level, with one stage for each step of the plan in the place of `foreach: plan`.

    `since` tells in which version of the plan each step was written as it is. Before there is a plan, the
    stage for its steps stays as it is and cannot run. A stage that needs it later needs every one of its
    steps, or, where all are skipped, what it needed.
    """
    if not plan or not any(stage.foreach == "plan" for stage in stages):
        return tuple(stages)
    made: dict[str, tuple[str, ...]] = {}
    children: dict[str, list[Stage]] = {}
    for stage in stages:
        if stage.foreach == "plan":
            items = [item for item in plan if is_open(item)]
            children[stage.id] = [child_stage(stage, item, since.get(item.id, 1)) for item in items]
            made[stage.id] = tuple(child.id for child in children[stage.id]) or stage.needs
    expanded: list[Stage] = []
    for stage in stages:
        needs = tuple(dict.fromkeys(part for need in stage.needs for part in made.get(need, (need,))))
        for child in children.get(stage.id, [stage]):
            expanded.append(child.model_copy(update={"needs": needs}))
    return tuple(expanded)


def is_open(item: PlanItem) -> bool:
    """Whether a step is to be carried out, or has been by a stage of its own."""
    return item.status != "skipped"


def child_stage(template: Stage, item: PlanItem, version: int) -> Stage:
    """The stage that carries out one step."""
    prompt = template.prompt
    for name, text in (("id", item.id), ("description", item.description), ("goal", item.goal or "none")):
        prompt = prompt.replace(f"{{item.{name}}}", text)
    return template.model_copy(
        update={
            "id": child_id(template.id, item.id, version),
            "label": f"{template.title} {item.id}",
            "prompt": prompt,
            "foreach": None,
            "item": item.id,
            "priority": item.priority,
        }
    )


def child_id(template: str, item: str, version: int) -> str:
    """An id for each step. A step that is rewritten after it was begun gets a new one."""
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", item)[:_SLUG_CHARS]
    if slug != item:  # two steps may look alike when what ids cannot hold is left out
        slug = f"{slug}_{sha256(item.encode()).hexdigest()[:6]}"
    return f"{template}-{slug}" if version == 1 else f"{template}-{slug}-v{version}"


def merge_plan(before: Sequence[PlanItem], after: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """A new plan over an old one, where the runtime carries the steps out.

    What is done or under way stays as it is, whatever the new plan says of it; a step that failed and is not
    in the new plan is replaced by it.
    """
    old = {item.id: item for item in before}
    new = {item.id for item in after}
    begun = [item for item in before if item.status not in ("pending", "skipped") and item.id not in new]
    return (*map(_settled, begun), *(_take_over(old.get(item.id), item) for item in after))


def written_since(
    since: Mapping[str, int], before: Iterable[PlanItem], after: Iterable[PlanItem], version: int
) -> dict[str, int]:
    """In which version each step of a new plan was written: one that was begun is not written over."""
    old = {item.id: item for item in before}
    return {
        item.id: version if _is_rewritten(old.get(item.id), item) else since.get(item.id, version)
        for item in after
    }


def with_status(plan: Iterable[PlanItem], item: str, status: Status) -> tuple[PlanItem, ...]:
    """The plan with one step's status changed."""
    return tuple(one.model_copy(update={"status": status}) if one.id == item else one for one in plan)


def _is_rewritten(old: PlanItem | None, new: PlanItem) -> bool:
    return old is None or (old.status in ("completed", "failed") and new.status == "pending")


def _take_over(old: PlanItem | None, new: PlanItem) -> PlanItem:
    if old and old.status == "in_progress":
        return old
    if old and old.status == "completed" and old.description.split() == new.description.split():
        return old
    return new.model_copy(update={"status": "pending", "reason": ""})


def _settled(item: PlanItem) -> PlanItem:
    if item.status != "failed":
        return item
    return item.model_copy(update={"status": "skipped", "reason": REPLACED})


READ_ONLY = "it only reads"


def skip_reading(items: Sequence[PlanItem]) -> list[PlanItem]:
    """The plan with the pending steps marked as skipped that change no file.

    A plan in which no step changes anything is carried out as it is: otherwise nothing would be done.
    """
    if not any(item.writes for item in items):
        return list(items)
    return [
        item.model_copy(update={"status": "skipped", "reason": READ_ONLY})
        if item.status == "pending" and not item.writes
        else item
        for item in items
    ]


# Notes.


SUMMARY_CHARS = 6_000
LIST_CHARS = 2_500
"""Of the decisions, of the next actions, and of the risks, together."""
ITEM_CHARS = 1_000
FILES_CHARS = 1_500
METADATA_CHARS = 3_500
LOGGED_CHARS = SUMMARY_CHARS + 3 * LIST_CHARS + 2 * FILES_CHARS + METADATA_CHARS
"""What a note has in the log at most: 20,000 characters."""


def bound_note(note: Note) -> Note:
    """The note as the log keeps it."""
    metadata = len(json.dumps(note.metadata, ensure_ascii=False, default=str))
    return note.model_copy(
        update={
            "summary": cut_text(note.summary, SUMMARY_CHARS, "the summary"),
            "decisions": _bound_list(note.decisions, LIST_CHARS, "decisions"),
            "next_actions": _bound_list(note.next_actions, LIST_CHARS, "next actions"),
            "risks": _bound_list(note.risks, LIST_CHARS, "risks"),
            "files_read": _bound_list(note.files_read, FILES_CHARS, "files"),
            "files_changed": _bound_list(note.files_changed, FILES_CHARS, "files"),
            "metadata": note.metadata
            if metadata <= METADATA_CHARS
            else {"cut": f"{metadata} characters of metadata"},
        }
    )


def render_notes(notes: Sequence[tuple[str, Note]], room: int) -> str:
    """What earlier stages left, in at most so many characters: short notes whole, long ones alike."""
    texts = [(stage, *_parts(stage, note)) for stage, note in notes]
    texts = [(stage, summary, rest) for stage, summary, rest in texts if summary or rest]
    sizes = [len(summary) + len(rest) + bool(summary and rest) + 1 for _, summary, rest in texts]
    limit = share_out(sizes, room + 1) - 1
    return "\n".join(_fit(stage, summary, rest, limit) for stage, summary, rest in texts if limit > 0)


def list_names(names: Sequence[str], most: int, room: int) -> str:
    """The latest names, as many as `most` and the room allow, and how many others there are."""
    shown: list[str] = []
    for name in reversed(names[-most:]):
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    left = len(names) - len(shown)
    return ", ".join([*([f"{left} more"] if left else []), *reversed(shown)])


def _bound_list(items: Sequence[str], room: int, what: str) -> tuple[str, ...]:
    if sum(len(item) + 1 for item in items) <= room and all(len(item) <= ITEM_CHARS for item in items):
        return tuple(items)
    kept: list[str] = []
    room -= 60  # for the mark at the end
    for item in items:
        item = cut_text(item, min(ITEM_CHARS, max(room, 0)), what)
        room -= len(item) + 1
        if room < 0:
            return (*kept, f"[... {len(items) - len(kept)} more {what} cut here ...]")
        kept.append(item)
    return tuple(kept)


def _parts(stage: str, note: Note) -> tuple[str, str]:
    said = stage if note.accepted else f"{stage} (the runtime did not accept this)"
    summary = f"- {said}: {note.summary}" if note.summary else ""
    output = () if note.output is None else (json.dumps(note.output, ensure_ascii=False, default=str),)
    lists = (
        ("output", output),
        ("decided", note.decisions),
        ("next", note.next_actions),
        ("risk", note.risks),
    )
    rest = "\n".join(f"  {title}: {item}" for title, items in lists for item in items)
    return summary or (f"- {said}:" if rest else ""), rest


def _fit(stage: str, summary: str, rest: str, limit: int) -> str:
    """A note in so many characters. Its lists give way first, but never to less than a half of it."""
    half = max(limit // 2, limit - len(summary) - 1)
    rest = cut_text(rest, half, f"the lists of {stage}") if summary else cut_text(rest, limit, stage)
    summary = cut_text(summary, limit - len(rest) - bool(rest), f"the note of {stage}")
    return "\n".join(part for part in (summary, rest) if part)
