"""Readers of text that others wrote: diffs, source, test output, command lines. Pure, like the core."""

from headgate.reading.command_lines import UNITTEST_PATTERN, Command, Given, read_runner, split_commands
from headgate.reading.diffs import FilePart, TaskDiff, read_files
from headgate.reading.failure import Failure, plain_lines
from headgate.reading.layout import MOST_CHARS, same_but_for_layout
from headgate.reading.python_source import (
    excerpt,
    find_functions,
    fingerprint,
    insertion_points,
    parse,
    telling_lines,
    with_definitions,
)
from headgate.reading.task_runners import (
    just_commands,
    make_commands,
    nox_commands,
    project_commands,
    pytest_settings,
    script_commands,
    tox_commands,
)
from headgate.reading.test_files import (
    find_tests,
    is_build_file,
    is_code,
    is_installed_or_built,
    is_runner_module,
    is_runner_setting,
    is_start_up_file,
    is_task_file,
    is_test,
    shadowing_module,
    source_of,
    task_program,
)
from headgate.reading.test_output import (
    MAX_FAILURES,
    describe,
    doubtful_result,
    find_failures,
    render_failures,
)
from headgate.reading.test_settings import changed_settings, has_test_settings

__all__ = [
    "MAX_FAILURES",
    "MOST_CHARS",
    "UNITTEST_PATTERN",
    "Command",
    "Failure",
    "FilePart",
    "Given",
    "TaskDiff",
    "changed_settings",
    "describe",
    "doubtful_result",
    "excerpt",
    "find_failures",
    "find_functions",
    "find_tests",
    "fingerprint",
    "has_test_settings",
    "insertion_points",
    "is_build_file",
    "is_code",
    "is_installed_or_built",
    "is_runner_module",
    "is_runner_setting",
    "is_start_up_file",
    "is_task_file",
    "is_test",
    "just_commands",
    "make_commands",
    "nox_commands",
    "parse",
    "plain_lines",
    "project_commands",
    "pytest_settings",
    "read_files",
    "read_runner",
    "render_failures",
    "same_but_for_layout",
    "script_commands",
    "shadowing_module",
    "source_of",
    "split_commands",
    "task_program",
    "telling_lines",
    "tox_commands",
    "with_definitions",
]
