"""Where in its flow a task is, as its events tell it."""

from typing import Literal

from headgate.core import events as ev

REVIEWS = ("diff_scope", "tests_touched", "tests_weakened")
"""Checks on the diff that go back to the model once."""
Phase = Literal[
    "returned",
    "revising",
    "revised",
    "stages",
    "verifying",
    "verified",
    "failed",
    "replanning",
    "replanned",
    "mending",
    "mended",
    "proposed",
    "applying",
    "applied",
]
"""Where in its flow a task is: in its stages, or where in the debug loop behind them."""


def next_phase(phase: Phase, body: ev.AnyBody, *, first_finding: bool) -> Phase:
    """The phase after an event. `first_finding`: a look at the diff has just found its first fault."""
    match body:
        case ev.CheckFinished(verdict="fail", final=False) if first_finding:
            return "returned"
        case ev.StageStarted(reason="review"):
            return "revising"
        case ev.StageEnded() if phase == "revising":
            return "revised"
        case ev.VerifyStarted(asked=False):
            return "verifying"
        case ev.VerifyFinished(asked=False):
            return "verified" if body.passed else "failed"
        case ev.ReplanStarted(item=""):
            return "replanning"
        case ev.StageEnded() if phase == "replanning":
            return "replanned"
        case ev.StageStarted(reason="check_failed"):
            return "mending"
        case ev.FixAttempted():
            return "mended"
        case ev.ProposalMade() | ev.ApplyRefused():
            return "proposed"
        case ev.ApplyStarted():
            return "applying"
        case ev.ApplyFinished():
            return "applied"
        case _:
            return phase
