"""What tools may touch. Each guard is a small callable that says no, or has no objection.

`InternalFiles` is part of every DiskWorkspace; the engine adds the others, from configuration and task.
"""

from collections.abc import Sequence

from headgate.core.access import Access, Denial
from headgate.host.globs import Rules
from headgate.host.internal import InternalFiles
from headgate.host.workspace import show_path
from headgate.tools.redaction import redactor
from headgate.tools.secret_files import DEFAULT_SECRETS, SecretFiles

__all__ = ["DEFAULT_SECRETS", "Boundaries", "InternalFiles", "SecretFiles", "redactor"]


class Boundaries:
    """Denies writing to paths that match a pattern as in .gitignore; a directory covers all that is below it.

    Letter case is ignored, since file systems exist that ignore it. The shell is not judged here: what a
    command writes can only be seen afterwards.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._rules = Rules(
            (pattern.strip().removeprefix("./").replace("/./", "/") for pattern in patterns), ignore_case=True
        )

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and self._rules.covers(access.target):
            return Denial(f"{show_path(access.target)} is outside this task's boundaries: do not change it.")
        return None
