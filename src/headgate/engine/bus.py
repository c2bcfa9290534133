"""Who hears of what happens in this process. Other processes follow the store."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headgate.core.events import Event
from headgate.core.messages import Pulse


@dataclass
class Bus:
    """Calls its listeners, in order, with events that are already committed and with pulses as they come."""

    on_event: list[Callable[[Event], None]] = field(default_factory=list)
    on_pulse: list[Callable[[Pulse], None]] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        for listener in self.on_event:
            listener(event)

    def pulse(self, source: str, text: str = "", done: int = 0, total: int = 0) -> None:
        for listener in self.on_pulse:
            listener(Pulse(source, text, done, total))
