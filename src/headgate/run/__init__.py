"""The loop: turn, stage, flow."""

from headgate.run.calls import hashes_of
from headgate.run.flow import run_flow
from headgate.run.job import Job
from headgate.run.resume import restore, restore_overlay

__all__ = [
    "Job",
    "hashes_of",
    "restore",
    "restore_overlay",
    "run_flow",
]
