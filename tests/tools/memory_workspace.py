"""A Workspace in a dictionary, for tests of tools that only read and return changes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from headgate.core import show_path
from headgate.errors import ToolDenied, ToolFailed
from headgate.tools import Outcome, Tool, ToolContext
from headgate.tree import DirectoryEntry, File, FileChange


class MemoryWorkspace:
    """Files by canonical path. Folders exist as long as a file is in them; there are no links."""

    def __init__(
        self, files: Mapping[str, bytes | str] | None = None, modes: Mapping[str, int] | None = None
    ):
        self.root = Path("/repository")
        self.data = {
            path: text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
            for path, text in (files or {}).items()
        }
        self.modes = dict(modes or {})

    def locate(self, path: str) -> str:
        parts: list[str] = []
        for part in PurePosixPath(path).parts:
            if part == "/" or (part == ".." and not parts):
                raise ToolDenied(f"{show_path(path)} is outside the repository.")
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        return "/".join(parts)

    def read(self, path: str) -> File:
        path = self.locate(path)
        if path not in self.data:
            problem = "is a directory" if self.exists(path) else "does not exist"
            raise ToolFailed(f"{show_path(path)} {problem}.")
        return File(path, self.data[path], self.modes.get(path, 0o644))

    def exists(self, path: str) -> bool:
        path = self.locate(path)
        return not path or path in self.data or any(name.startswith(f"{path}/") for name in self.data)

    def list(self, path: str = "") -> list[DirectoryEntry]:
        prefix = f"{self.locate(path)}/".removeprefix("/")
        found: dict[str, DirectoryEntry] = {}
        for name, data in self.data.items():
            if name.startswith(prefix):
                first, _, rest = name.removeprefix(prefix).partition("/")
                found[first] = (
                    DirectoryEntry(first, "dir") if rest else DirectoryEntry(first, "file", len(data))
                )
        return [found[name] for name in sorted(found)]

    def files(self, under: str = "") -> Iterator[str]:
        prefix = f"{self.locate(under)}/".removeprefix("/")
        yield from sorted(name for name in self.data if name.startswith(prefix))

    def apply(self, changes: Sequence[FileChange]) -> None:
        for change in changes:
            if self.data.get(change.path) != change.before:
                raise ToolFailed(f"{show_path(change.path)} has changed since it was read.")
        for change in changes:
            if change.after is None:
                del self.data[change.path]
            else:
                if change.mode is not None:
                    self.modes[change.path] = change.mode
                self.data[change.path] = change.after


def call(tool: Tool, workspace: MemoryWorkspace, **arguments: object) -> Outcome:
    """Runs a tool as the runtime does: arguments validated, then the changes applied."""
    context = ToolContext(workspace, save_output=lambda text: "saved.txt")
    outcome = tool.function(context, tool.parse(arguments))
    assert isinstance(outcome, Outcome)
    workspace.apply(outcome.changes)
    return outcome
