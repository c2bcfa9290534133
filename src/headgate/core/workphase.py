"""What an event does to the phase of the work, as phase control sees it."""

from headgate.core import events as ev
from headgate.core.phases import PhaseState, Signals


def follow(phases: PhaseState, body: ev.AnyBody) -> PhaseState:
    """The phase after an event, or what its rules count."""
    match body:
        case ev.ToolFinished(ok=True):
            return phases.count(Signals(body.read, body.changed))
        case ev.PlanWritten():
            return phases.count(Signals(plan_written=True))
        case ev.StageStarted():
            return phases.hear(answered=True)
        case ev.PhaseProbed():
            return phases.hear(answered=not body.fault)
        case ev.PhaseChanged():
            return phases.move(body.phase, body.by)
        case _:
            return phases
