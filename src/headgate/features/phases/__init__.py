"""Phases: a hint that depends on how far the work has come. It decides nothing, and enters no transcript.

What runs tasks finds the rest in `feature`.
"""

from headgate.features.phases.events import PhaseChanged, PhaseProbed
