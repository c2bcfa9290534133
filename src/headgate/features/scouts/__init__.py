"""Scouts: facts about a task that are gathered before a model is asked. The code map says where to look.

What runs tasks finds the rest in `feature`.
"""

from headgate.features.scouts.events import ScoutReported
