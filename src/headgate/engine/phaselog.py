"""The `.log` file of a task's changes of phase, for those who tune phase control."""

import os
from datetime import UTC, datetime

from headgate.core.events import Event, PhaseChanged
from headgate.core.phases import phase_line
from headgate.engine.folder import Folder

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class PhaseFile:
    """Hears events and appends each change of phase to `.headgate/logs/TASK.log`."""

    def __init__(self, folder: Folder) -> None:
        self._logs = folder.path / "logs"

    def hear(self, event: Event) -> None:
        if not isinstance(event.body, PhaseChanged):
            return
        body = event.body
        at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds")
        change = phase_line(body.before, body.phase, body.by, body.reason)
        self._logs.mkdir(exist_ok=True)
        descriptor = os.open(self._logs / f"{event.task}.log", _FLAGS, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as log:
            log.write(f"{at} {event.path} turn {event.turn} {change}\n")
