"""When a failed task holds up the queue: what failed it would fail the next one, too."""

from headgate.core.task import Options

_OF_THE_MODEL = frozenset({"model_unavailable", "model_refused"})
_OF_THE_CONFIGURATION = frozenset({"check_broken"})
_OF_THE_MACHINE = frozenset({"environment"})


def holds_up(reason: str, failed: Options, following: Options) -> bool:
    """Whether the environment that failed one task, for a reason given by its slug, will fail another.

    A crash of Headgate and a lost log are a task's own. A model that does not answer says nothing about
    another model, and a broken check nothing about another configuration.
    """
    if reason in _OF_THE_MODEL:
        asked = (failed.model, failed.base_url, failed.config)
        return asked == (following.model, following.base_url, following.config)
    if reason in _OF_THE_CONFIGURATION:
        return failed.config == following.config
    return reason in _OF_THE_MACHINE
