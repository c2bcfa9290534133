"""Headgate: a task runtime for coding agents. As a library: flows with functions of a program's own."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from headgate.core import Limits, ModelSettings
    from headgate.errors import ConfigError
    from headgate.library import (
        Callbacks,
        Checkpoint,
        Flow,
        FlowResult,
        FlowRun,
        RestoredFlow,
        RunOptions,
        Stage,
        StageResult,
        restore_flow,
        run_flow,
        run_flow_sync,
        start_flow,
        tool,
    )

__all__ = [
    "Callbacks",
    "Checkpoint",
    "ConfigError",
    "Flow",
    "FlowResult",
    "FlowRun",
    "Limits",
    "ModelSettings",
    "RestoredFlow",
    "RunOptions",
    "Stage",
    "StageResult",
    "__version__",
    "restore_flow",
    "run_flow",
    "run_flow_sync",
    "start_flow",
    "tool",
]


def __getattr__(name: str) -> Any:
    """The library is loaded when it is first used: the command line starts without it."""
    if name not in __all__:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    import gc

    was_enabled = gc.isenabled()
    gc.disable()  # imports leave no garbage, and looking for some takes a tenth of the time
    try:
        from headgate import core, errors, library
    finally:
        if was_enabled and not gc.get_freeze_count():
            gc.freeze()  # what was imported counts as old from then on, and is not looked through at once
            gc.unfreeze()
        if was_enabled:
            gc.enable()
    return next(getattr(room, name) for room in (library, core, errors) if hasattr(room, name))


def __dir__() -> list[str]:
    return __all__
