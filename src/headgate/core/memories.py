"""How many memories a task has saved, for its report. Commands that only look back load no feature."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.event import Slice
from headgate.core.knobs import MEMORY_TOOL
from headgate.core.state import State
from headgate.core.turn_events import Calls


@dataclass
class MemoriesSaved(Slice):
    """What a task has saved for later ones. The calls that did it are counted where all are."""

    def report(self, state: State) -> Mapping[str, Any]:
        calls = state[Calls]
        return {"memories_saved": calls.made[MEMORY_TOOL] - calls.failed[MEMORY_TOOL]}
