"""Processes: commands and what they leave running, the lock, work that is not interrupted."""

from headgate.process.commands import (
    MAX_LOG,
    CommandResult,
    CommandUnavailable,
    filtered_environment,
    run_command,
    uninterrupted,
)
from headgate.process.lock import FileLock
from headgate.process.reaper import is_inside_command, kill_leftovers, kill_own_commands
from headgate.process.sandbox import (
    MOST_MOUNTS,
    TOOL_CACHES,
    Bubblewrap,
    CommandLimits,
    NoSandbox,
    Sandbox,
    cache_paths,
    find_bubblewrap,
    pythons_of,
    toolchain_paths,
)
