"""What a conversation starts with: the system prompt, the task, its constraints, notes of earlier stages."""

from collections import Counter

from headgate.config.texts import fill, prompt
from headgate.core.events import Note
from headgate.core.flow import Stage
from headgate.host.workspace import Workspace, show_path
from headgate.run.guides import NAME, read_guide
from headgate.run.job import Job
from headgate.tools.files import listing
from headgate.tools.signals import render_plan

LISTED = 40
LISTED_CHARS = 2_000
"""What is told of the repository's files: a few hundred tokens, read once."""


def system_message(job: Job, stage: Stage) -> str:
    """The same bytes for every turn of a conversation: nothing that changes belongs here."""
    parts = [prompt("system")]
    if stage.view.transcript == "own" and stage.system:
        parts.append(stage.system.strip())
    if job.agents_md and (guide := read_guide(job.context.workspace, NAME)):
        parts.append(f"The repository's {NAME}:\n{guide}")
    return "\n\n".join(parts)


def opening_message(job: Job, stage: Stage) -> str:
    """The first user message. It is never cut, so the task and its constraints are always in view."""
    parts = [f"Task:\n{job.task.request}"]
    if constraints := job.task.constraints.render():
        parts.append(constraints)
    if files := list_files(job.context.workspace):
        parts.append(files)
    if job.earlier_report:
        parts.append(fill("earlier_attempt", report=job.earlier_report))
    if stage.view.transcript == "own":
        parts += _from_earlier_stages(job, stage)
    return "\n\n".join(parts)


def list_files(workspace: Workspace) -> str:
    """All files if they are few, else the directories at the root: a model that guesses paths guesses on."""
    paths = [show_path(path) for path in workspace.files()]
    if len(paths) <= LISTED:
        return listing("Files in the repository", paths, LISTED_CHARS) if paths else ""
    folders = Counter(path.partition("/")[0] for path in paths if "/" in path)
    used = [f"{name}/ ({count:,})" for name, count in folders.items()]
    return listing("Directories, with their number of files", used, LISTED_CHARS) if used else ""


def stage_message(stage: Stage) -> str:
    """What a stage is about; said when it is entered, and again when that has been cut from view."""
    return f"Stage: {stage.title}\n{stage.prompt}".strip()


def _from_earlier_stages(job: Job, stage: Stage) -> list[str]:
    """The plan, and the latest notes: what a stage that sees none of the others' messages needs."""
    window = stage.view.notes_window
    notes = list(job.state.notes.items())[-window:] if window else []
    lines = [line for stage_id, note in notes for line in _note_lines(stage_id, note)]
    parts = ["Notes of earlier stages:\n" + "\n".join(lines)] if lines else []
    files = [("changed", job.state.files_changed), ("read", job.state.files_read)]
    told = [f"Files {what} so far: {', '.join(list(names)[-20:])}." for what, names in files if names]
    parts += ["\n".join(told)] if told and window else []
    return [*parts, f"The plan:\n{render_plan(job.state.plan)}"] if job.state.plan else parts


def _note_lines(stage_id: str, note: Note) -> list[str]:
    lines = [f"- {stage_id}: {note.summary}"] if note.summary else []
    for title, items in (("decided", note.decisions), ("next", note.next_actions), ("risk", note.risks)):
        lines += [f"  {title}: {item}" for item in items]
    return lines
