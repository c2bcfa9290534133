"""What a model's calls did, in one line each, for people who watch them come."""

from headgate.core import events as ev
from headgate.core.text import shorten

_VERBS = {
    "ls": "list",
    "read_file": "read",
    "read_files": "read",
    "find_files": "find",
    "write_file": "write",
    "edit_file": "edit",
    "apply_patch": "patch",
    "shell": "run",
    "load_skill": "load skill",
    "make_skill": "make skill",
}
_TOLD = frozenset({"run_tests", "ask_scout", "agent__task_status", "plan_tasks"})
"""Calls that are milestones themselves, unless they fail."""
_PATHS_SHOWN = 3
_WHY_SHOWN = 120


class CallLines:
    """Takes the events of one task, and says each call once it was answered.

    They are no milestones: who follows a task from afar sees its stages, its verifications and its end. What
    the model thinks is not shown, and neither are the signals that the runtime accepted.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], ev.ToolStarted] = {}

    def hear(self, event: ev.Event) -> str | None:
        """Takes an event; the line of a call that it ends."""
        match event.body:
            case ev.ToolStarted() as body:
                self._begun[event.path, body.call] = body
            case ev.ToolFinished() as body:
                begun = self._begun.pop((event.path, body.call), None)
                return _say(body, begun.target if begun else "")
            case _:
                pass
        return None


def _say(body: ev.ToolFinished, target: str) -> str | None:
    if body.error == "denied" or body.restored:
        return None  # a milestone says it
    if body.ok and (body.category in ("reasoning", "control") or body.name in _TOLD):
        return None
    what = f"{_VERBS.get(body.name, body.name)} {_files(body) or target}".rstrip()
    if not body.ok:
        why = (body.detail or body.error).removeprefix(f"{body.name}: ")
        first = " ".join(why.split()).split("; ", maxsplit=1)[0].split(". ", maxsplit=1)[0]
        return f"{what}: failed: {shorten(first.rstrip('.'), _WHY_SHOWN)}"
    if body.category == "run":
        how = {"": "", "timed out": ": timed out"}.get(body.told, f": failed ({body.told})")
        return f"{what}{how}"
    return f"{what} {body.told}".rstrip()


def _files(body: ev.ToolFinished) -> str:
    """The files of a call that has several: what it was given tells only the beginning of the list."""
    files = body.changed if body.name == "apply_patch" else body.read if body.name == "read_files" else ()
    more = f" and {len(files) - _PATHS_SHOWN} more" if len(files) > _PATHS_SHOWN else ""
    return ", ".join(files[:_PATHS_SHOWN]) + more
