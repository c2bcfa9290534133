"""Failed verifications, and whether anything was done about them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from headgate.core.settings import Data
from headgate.first_use import dataclass

if TYPE_CHECKING:
    from headgate.core.verification import VerifyFinished


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
    fix: str | None = None
    """What was changed afterwards, as a diff; None until that is known."""
    tree_after: str = ""
    """The tree after the run, or after a later one of the unchanged tree: a run may write files itself."""
    sentence: str = ""
    """Why it failed, for people: the first failing test by name, or else the step that failed."""
    own: str = ""
    """The tree that failed, without what others had changed; and the one after the run, without it."""
    own_after: str = ""

    @classmethod
    def of(cls, body: "VerifyFinished") -> Self:
        """A run that failed. Earlier versions did not tell the task's own changes apart."""
        return cls(
            body.run_id,
            body.reason,
            body.tree,
            body.failing,
            tree_after=body.tree_after,
            sentence=body.sentence,
            own=body.own or body.tree,
            own_after=body.own_after or body.tree_after,
        )


class FailureReport(Data):
    """One failed verification, in brief."""

    run_id: str
    reason: str
    sentence: str = ""
    """The same for people: the first failing test by name, where one is known."""
    failing: tuple[str, ...] = ()
    diagnosis: str

    @classmethod
    def of(cls, failure: Failure) -> Self:
        """What scripts are told of it."""
        return cls.model_validate(failure, from_attributes=True)


LISTED = 12


def condense_failures(failures: Sequence[Failure]) -> str:
    """What failed, and what was made of it, a few lines each, the latest last."""
    lines = []
    for number, failure in list(enumerate(failures, 1))[-LISTED:]:
        lines.append(f"{number}. {failure.reason} ({failure.run_id})")
        lines += [f"   failing: {test}" for test in failure.failing[:3]]
        if failure.diagnosis:
            lines.append(f"   diagnosis: {failure.diagnosis}")
        fix = failure.fix or ""
        files = [line[6:] for line in fix.splitlines() if line.startswith("+++ b/")]
        if failure.diagnosis or fix:
            lines.append(f"   changed: {', '.join(files) or 'nothing'}")
    return "\n".join(lines)
