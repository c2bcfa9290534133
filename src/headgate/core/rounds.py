"""The debug loop, round by round: each failed verification, and whether anything has changed since."""

from dataclasses import dataclass, field

from headgate.core import events as ev


@dataclass
class Failure:
    """One failed verification and what was made of it."""

    run_id: str
    reason: str
    tree: str = ""
    """The git tree that failed."""
    failing: tuple[str, ...] = ()
    """The tests that failed, where the runner's format is known."""
    diagnosis: str = ""
    fix: str = ""
    tree_after: str = ""
    """The tree after the run, or after a later one of the unchanged tree: a run may write files itself."""


@dataclass
class Round:
    """What was done since the last failed verification."""

    written: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """What tools wrote: the hash of each file before the first write and after the last."""
    ran: bool = False
    """A command was run."""

    def take(self, call: ev.ToolStarted, *, ok: bool) -> None:
        """Takes a call in that has ended. A write that failed wrote nothing."""
        for change in call.changes if ok else ():
            before, _ = self.written.get(change.path, (change.before, None))
            self.written[change.path] = (before, change.after)
        self.ran = self.ran or (call.category == "run" and call.name != "run_tests")

    def is_idle(self, failures: list[Failure], tree: str, reason: str, failing: tuple[str, ...]) -> bool:
        """Whether nothing has changed since the last of these failures, given what the next run found.

        A tree shows neither what git ignores nor what a command did elsewhere. What tools wrote is compared
        by its hashes; a command counts as a change if verification now fails in another way.
        """
        last = failures[-1] if failures else None
        if (
            last is None
            or tree not in (last.tree, last.tree_after)
            or any(before != after for before, after in self.written.values())
        ):
            return False
        return not self.ran or (reason, failing) == (last.reason, last.failing)
