"""What must hold to leave a stage or to end a flow."""

from headgate.checks.activity import check_activity
from headgate.checks.scope import check_scope, check_tests
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
from headgate.checks.weakened import check_weakened

__all__ = [
    "COMBINED",
    "INSTALLED_RUNNERS",
    "StepRun",
    "Verification",
    "Verifier",
    "check_activity",
    "check_scope",
    "check_tests",
    "check_weakened",
    "new_run_id",
    "prune_runs",
    "unless_cut_short",
]
