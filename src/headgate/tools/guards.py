"""What tools may touch. Each guard is a small callable that says no, or has no objection.

`InternalFiles` is part of every DiskWorkspace; the engine adds the others, from configuration and task.
"""

from collections.abc import Callable, Sequence

from headgate.core.access import Access, Denial
from headgate.core.boundaries import fixed_prefix
from headgate.core.pathtext import show_path
from headgate.host.globs import Rules, expand_braces, fold
from headgate.host.internal import InternalFiles, internal_name
from headgate.tools.redaction import redactor
from headgate.tools.secret_files import DEFAULT_SECRETS, SecretFiles


class Boundaries:
    """Denies writing to paths that match a pattern as in .gitignore; a directory covers all that is below it.

    Letter case is ignored, since file systems exist that ignore it. The shell is not judged here: what a
    command writes can only be seen afterwards, by a `ProtectedFiles` with `covers` and `enters`.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        plain = [pattern.strip().removeprefix("./").replace("/./", "/") for pattern in patterns]
        tidied = list(dict.fromkeys(one for pattern in plain for one in (pattern, *expand_braces(pattern))))
        self._rules = Rules(tidied, ignore_case=True)
        self._taken = [pattern for pattern in tidied if not pattern.startswith("!")]
        self._prefixes = frozenset(fold(fixed_prefix(pattern)) for pattern in self._taken)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and self.covers(access.target):
            return Denial(
                f"{show_path(access.target)} is out of bounds for this task{self._named(access.target)}:"
                " do not change it."
            )
        return None

    def covers(self, path: str) -> bool:
        """Whether a file is out of bounds."""
        return self._rules.covers(path)

    def _named(self, path: str) -> str:
        """The pattern that says so, in brackets, where it says more than the path."""
        covering = (
            pattern for pattern in reversed(self._taken) if Rules([pattern], ignore_case=True).covers(path)
        )
        pattern = next(covering, path)
        return f" ({pattern})" if pattern != path else ""

    def enters(self, directory: str) -> bool:
        """Whether anything below a directory can be out of bounds. git's files and ours are not looked at."""
        if _is_internal(directory):
            return False
        place = fold(directory)
        return any(
            not prefix or _is_inside(place, prefix) or _is_inside(prefix, place) for prefix in self._prefixes
        )


class OnlyInside:
    """Denies writing anywhere but in one package of a monorepo.

    What git ignores is not kept from commands: they leave caches and installed packages where they please.
    """

    def __init__(
        self,
        package: str,
        ignores_file: Callable[[str], bool] = lambda path: False,
        ignores_directory: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.package = package
        self._ignores_file = ignores_file
        self._ignores_directory = ignores_directory

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and not _is_inside(access.target, self.package):
            return Denial(
                f"{show_path(access.target)} is outside the package {show_path(self.package)}: this task"
                " may only write inside it."
            )
        return None

    def covers(self, path: str) -> bool:
        """Whether a command may not change a file."""
        return not _is_inside(path, self.package) and not self._ignores_file(path)

    def enters(self, directory: str) -> bool:
        """Whether anything below a directory is kept from commands."""
        if _is_internal(directory) or directory == self.package:
            return False
        return not self._ignores_directory(directory)


class ConfigFiles:
    """Denies writing to the files that configure Headgate: a task does not decide what binds the next one.

    Letter case is ignored, since file systems exist that ignore it.
    """

    reason = "it configures Headgate, and allow_config_edits is not set"

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = frozenset(fold(path) for path in paths)

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and self.covers(access.target):
            return Denial(
                f"{show_path(access.target)} configures Headgate: a task may not change it. "
                "Only a person can allow this, with `allow_config_edits: true`."
            )
        return None

    def covers(self, path: str) -> bool:
        """Whether a file configures Headgate."""
        return fold(path) in self._paths

    def enters(self, directory: str) -> bool:
        """Whether such a file can be below a directory."""
        return any(path.startswith(f"{fold(directory)}/") for path in self._paths)


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _is_internal(directory: str) -> bool:
    return "/" not in directory and internal_name(directory) is not None
