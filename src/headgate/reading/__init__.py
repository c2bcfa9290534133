"""Readers of text that others wrote: diffs, source, test output, command lines. Pure, like the core."""

from headgate.reading.addresses import is_loopback, is_nearby, is_private, reaches_this_machine
from headgate.reading.broken_json import repair_json
from headgate.reading.command_lines import (
    UNITTEST_PATTERN,
    Command,
    RunnerCall,
    read_runner,
    split_commands,
    word_set,
)
from headgate.reading.diffs import (
    DiffHunk,
    FileDiff,
    HunkLines,
    Sign,
    TaskDiff,
    read_diff,
    read_git_diff,
    read_place,
)
from headgate.reading.failed_tests import FailedTest, plain_lines
from headgate.reading.program_output import OutputKind, condense_output, output_kind
from headgate.reading.project_files import (
    changed_settings,
    has_test_settings,
    just_commands,
    make_commands,
    nox_commands,
    project_commands,
    pytest_settings,
    script_commands,
    tox_commands,
)
from headgate.reading.source_text import (
    MOST_CHARS,
    find_functions,
    insertion_points,
    lines_with_logic,
    parse_python,
    python_fingerprint,
    same_but_for_layout,
    source_excerpt,
    with_definitions,
)
from headgate.reading.test_files import (
    find_tests,
    is_code,
    is_installed_or_built,
    is_runner_module,
    is_runner_package,
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
    count_tests,
    describe,
    explain_doubtful_success,
    find_failures,
    render_failures,
)
from headgate.reading.tool_settings import is_build_file, is_tool_setting
