"""Compaction: a summary takes the place of what was said in a stage, once it has ended.

What runs tasks finds the rest in `feature`.
"""

from headgate.features.compaction.events import StageCompacted
