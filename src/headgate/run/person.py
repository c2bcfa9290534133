"""What a person says while a task runs. It is heard between turns, and no conversation loses sight of it."""

from dataclasses import replace

from headgate.config import fill
from headgate.core import (
    Action,
    Person,
    PersonSpoke,
    TurnRecord,
    clean_text,
    decide,
    render_lines,
)
from headgate.run.first_messages import said_room
from headgate.run.stage import StageRun
from headgate.run.turn import tell

_TAKES_TURN: tuple[Action, ...] = ("continue", "wait", "compact", "final_turn")
"""What may be decided so that the model is asked once more."""


async def record_user_messages(run: StageRun) -> None:
    """Takes in what was said since the last turn, if a model will read it in this stage.

    What nobody reads here waits for the next stage. A line leaves the store with the commit of its event, so
    none is lost or heard twice.
    """
    job = run.job
    if not _reads_on(run):
        return
    async with job.people.taking_lines:
        # A stage that runs beside this one may have heard them just now.
        for line in job.people.lines():
            run.record(PersonSpoke(text=job.place.redact(clean_text(line.text)), number=line.number))
        await job.log.commit()


def _reads_on(run: StageRun) -> bool:
    """Whether the model gets another turn in this attempt, or can be given one although it is done.

    Its budget holds: a stage that is done with its last turn stays done.
    """
    counts, around = run.state.counts, run.around()
    fresh = replace(counts, turn=TurnRecord(usable=True, succeeded=True), standalone_before=0)
    if not counts.done:
        return decide(fresh, around, run.stage.budget).action in _TAKES_TURN
    fresh.done = fresh.verdict = None
    is_open = run.is_conversation and not counts.granted
    return is_open and decide(fresh, around, run.stage.budget).action == "continue"


def deliver_user_messages(run: StageRun) -> None:
    """Tells the model what a person said and this conversation does not show: it is new, or was cut."""
    said, shown = run.job.state[Person].said, run.transcript.shown_lines()
    missing = [number for number in said if number not in shown]
    if not missing or not run.is_conversation:
        return
    is_new = all(number not in run.transcript.messages_with_lines for number in missing)
    tools = " and ".join(spec.name for spec in run.scope.final)
    text = fill(
        "person",
        when="The user says" if is_new else "The user said while you worked",
        lines=render_lines([said[number] for number in missing], said_room(run.job, run.stage)),
        rest=f" This is still the last turn: you can only call {tools}." if run.state.counts.granted else "",
    )
    tell(run, "person", text, said=tuple(missing))
