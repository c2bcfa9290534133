"""What must hold to leave a stage or to end a flow."""

from headgate.checks.code_changed import CODE_CHANGED
from headgate.checks.files_read import FILES_READ
from headgate.checks.named_in_task import NAMED_FILES, NAMED_TESTS
from headgate.checks.plan_written import PLAN_WRITTEN
from headgate.checks.registry import Check, Facts, registry_of
from headgate.checks.scope import DIFF_SCOPE, TESTS_TOUCHED
from headgate.checks.tool_calls import TOOL_CALLS
from headgate.checks.verify import (
    COMBINED,
    INSTALLED_RUNNERS,
    StepRun,
    Verification,
    Verifier,
    new_run_id,
    prune_runs,
    unless_cut_short,
)
from headgate.checks.weakened import TESTS_WEAKENED

CHECKS = registry_of(
    FILES_READ,
    NAMED_FILES,
    NAMED_TESTS,
    TOOL_CALLS,
    PLAN_WRITTEN,
    CODE_CHANGED,
    DIFF_SCOPE,
    TESTS_TOUCHED,
    TESTS_WEAKENED,
)
"""Every check that comes with Headgate. They run in this order."""
