"""The line at the bottom of the terminal: the model and the flow of the next task, and the branch."""

import os
from collections.abc import Callable
from pathlib import Path

from headgate.config import Loaded, depends_on_goal, flow_from_config
from headgate.core import Options
from headgate.engine import FLOW_NAMES
from headgate.errors import ConfigError
from headgate.tree import GitFailed, git_folder, read_regular

_HASH_CHARS = 8


class NextTask:
    """What the next task would use, as it was when `look` was called last."""

    def __init__(self, repo: Path, read_config: Callable[[Options], Loaded]) -> None:
        self._repo, self._read_config = repo, read_config
        self._settings = ""

    def look(self, chosen: Options) -> None:
        """Reads the configuration again. What is wrong with it is said where a task is to start."""
        try:
            loaded = self._read_config(chosen)
            config = loaded.config
            if chosen.flow is None and depends_on_goal(config):
                flow = "auto"
            else:
                flow = flow_from_config(config, chosen.flow, self._repo, FLOW_NAMES, loaded.documents).name
        except ConfigError:
            self._settings = "agent.yaml cannot be used"
            return
        self._settings = f"{config.model or 'no model'}   flow {flow}"

    def line(self) -> str:
        """`openai/qwen3-coder   flow staged   branch main`."""
        branch = find_branch(self._repo)
        return "   ".join(filter(None, (self._settings, branch and f"branch {branch}")))


def find_branch(repo: Path) -> str:
    """The branch that is checked out, or the beginning of the commit's hash; empty if git does not tell."""
    try:
        head = os.fsdecode(read_regular(git_folder(repo) / "HEAD", 4096)).strip()
    except (OSError, GitFailed):
        return ""
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return head[:_HASH_CHARS]
