"""A queue of jobs; the most urgent job is taken first."""

import heapq
from collections.abc import Iterable

Job = tuple[int, str]


class QueueEmpty(LookupError):
    """There is no job to take."""


class JobQueue:
    """Jobs as (priority, name); a lower priority number is more urgent."""

    def __init__(self, owner: str, jobs: Iterable[Job] = ()) -> None:
        self.owner = owner
        self._jobs = list(jobs)
        heapq.heapify(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, name: str, priority: int = 5) -> None:
        """Put a job into the queue."""
        if not name:
            raise ValueError("a job needs a name")
        heapq.heappush(self._jobs, (priority, name))

    def take(self) -> str:
        """Remove the most urgent job and return its name."""
        if not self._jobs:
            raise QueueEmpty(f"no jobs for {self.owner}")
        return heapq.heappop(self._jobs)[1]

    def take_all(self) -> list[str]:
        """Remove all jobs and return their names, most urgent first."""
        names = []
        while self._jobs:
            names.append(self.take())
        return names

    def waiting(self) -> list[str]:
        """Return the names of all jobs, most urgent first, and keep them."""
        return [name for _, name in sorted(self._jobs)]
