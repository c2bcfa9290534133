"""When a failed task holds up the queue: what failed it would fail the next one, too."""

from headgate.core.task import Task

_OF_THE_MODEL = frozenset({"model_unavailable", "model_refused"})
_OF_THE_STEPS = frozenset({"check_broken"})
_OF_THE_MACHINE = frozenset({"environment"})


def holds_up(reason: str, failed: Task, following: Task) -> bool:
    """Whether the environment that failed one task, for a reason given by its slug, will fail another.

    A crash of Headgate and a lost log are a task's own. A model that does not answer says nothing about
    another model or another server, and a broken check nothing about other steps. Of several models or
    steps, any may have failed: the other task must use all of them. Tasks that an older version stored name
    none, and hold up every task.
    """
    if reason in _OF_THE_MODEL:
        return set(failed.models) <= set(following.models)
    if reason in _OF_THE_STEPS:
        return failed.package == following.package and set(failed.steps) <= set(following.steps)
    return reason in _OF_THE_MACHINE
