"""Where the files are that a person mentions in a task."""

from headgate.errors import ToolDenied, ToolError
from headgate.tree.workspace import Workspace


class MentionedPaths:
    """Finds what a mention means: from the repository's root, or else from the package of a monorepo."""

    def __init__(self, workspace: Workspace, package: str | None = None) -> None:
        self._workspace = workspace
        self._package = package

    def find(self, path: str) -> str:
        """The path to read; empty if nothing is there. Reading it may still be refused."""
        from_package = [f"{self._package}/{path}"] if self._package else []
        return next((place for place in (path, *from_package) if self._is_there(place)), "")

    def exists(self, path: str) -> bool:
        """Whether a mention means something. A folder needs a slash: `@test` is more often something else."""
        return bool(self.find(path))

    def is_folder(self, place: str) -> bool:
        """Whether a path that was found is a folder."""
        try:
            return self._workspace.stamp(self._workspace.locate(place)) is None
        except ToolError:
            return False

    def _is_there(self, place: str) -> bool:
        try:
            if not self._workspace.exists(place):
                return False
        except ToolDenied:  # a file for secrets, say: whoever mentions it is told so
            return self._workspace.stamp(place.removeprefix("./")) is not None
        except ToolError:
            return False
        return "/" in place or not self.is_folder(place)
