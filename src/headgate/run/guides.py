"""AGENTS.md: what a repository wants every agent to know."""

from pathlib import PurePosixPath

from headgate.core.messages import clean_text
from headgate.core.pathtext import show_path
from headgate.errors import ToolError
from headgate.host.workspace import Workspace
from headgate.run.transcript import Transcript

NAME = "AGENTS.md"
LIMIT = 8_000


def read_guide(workspace: Workspace, path: str) -> str:
    """The text of one such file, shortened if it is long; nothing if it is not there or cannot be read."""
    try:
        text = (
            clean_text(workspace.read(show_path(path)).text).strip()
            if workspace.exists(show_path(path))
            else ""
        )
    except ToolError:
        return ""
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}\n[the rest of {show_path(path)} is cut]"


def nested_guides(workspace: Workspace, transcript: Transcript, read: tuple[str, ...]) -> str:
    """The nearest guide above each file that was read, unless this conversation has it; the root's it has."""
    parts = []
    for path in read:
        for folder in PurePosixPath(path).parents:
            guide = str(folder / NAME)
            if str(folder) == "." or guide == path:
                break
            if guide in transcript.guides_given:
                break
            if text := read_guide(workspace, guide):
                transcript.guides_given.add(guide)
                parts.append(f"\n\n[{show_path(guide)}, which applies to this file]\n{text}")
                break
    return "".join(parts)
