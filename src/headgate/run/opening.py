"""What a conversation starts with: the system prompt, the task, its constraints, notes of earlier stages."""

from headgate.config.texts import prompt
from headgate.core.flow import Stage
from headgate.run.guides import NAME, read_guide
from headgate.run.job import Job


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
    parts = [f"Task:\n{job.task.goal}"]
    if constraints := job.task.constraints.render():
        parts.append(constraints)
    notes = list(job.state.notes.items())[-stage.view.notes_window :] if stage.view.notes_window else []
    if stage.view.transcript == "own" and notes:
        lines = [f"- {stage_id}: {note.summary}" for stage_id, note in notes if note.summary]
        if lines:
            parts.append("Notes of earlier stages:\n" + "\n".join(lines))
    parts.append(f"Stage: {stage.title}\n{stage.prompt}".strip())
    return "\n\n".join(parts)
