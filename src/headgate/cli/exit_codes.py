"""The exit codes of every command, what they mean, and which one a task's state has.

`main` imports this module, so it imports nothing.
"""

EXIT_SUCCESS = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
EXIT_CANCELLED = 130
EXIT_BROKEN_PIPE = 141
"""Nobody reads standard output any more: the code of a process that SIGPIPE ends."""

EXIT_CODE_MEANINGS = {
    EXIT_SUCCESS: "success, or a proposal",
    EXIT_FAILED: "stuck, a proposal that no longer applies, or a failed verification step",
    EXIT_USAGE: "usage or configuration",
    EXIT_ENVIRONMENT: "environment",
    EXIT_CANCELLED: "cancelled",
}
"""What the help and the documentation say."""

EXIT_CODES = {
    "SUCCESS": EXIT_SUCCESS,
    "PROPOSED": EXIT_SUCCESS,
    "STUCK": EXIT_FAILED,
    "INFRA_ERROR": EXIT_ENVIRONMENT,
    "CANCELLED": EXIT_CANCELLED,
    "QUEUED": EXIT_ENVIRONMENT,
}
"""The exit code for the state of a task that a command has followed.

A task that is still QUEUED when nobody works any more is behind one that the environment failed.
"""
