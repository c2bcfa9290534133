"""What must hold to leave a stage or to end a flow."""

from headgate.checks.fault_localisation import (
    Suspect,
    likely_lines,
    rank_functions,
    score_lines,
    suspect_lines,
)
from headgate.checks.kept_runs import prune_runs
from headgate.checks.measured_lines import CoverageByTest, measure_coverage, measuring
from headgate.checks.registry import Check, Facts, registry_of
from headgate.checks.stage_checks import (
    CHANGE_OR_ANSWER,
    CODE_CHANGED,
    FILES_READ,
    NAMED_FILES,
    NAMED_TESTS,
    PLAN_WRITTEN,
    TASKS_ENDED_CHECK,
    TOOL_CALLS,
)
from headgate.checks.step_needs import Missing, find_missing
from headgate.checks.verify import (
    COMBINED,
    RUN_ID,
    AfterStep,
    StepRun,
    Verification,
    Verifier,
    new_run_id,
    stop,
    unless_cut_short,
)

CHECKS = registry_of(
    FILES_READ,
    NAMED_FILES,
    NAMED_TESTS,
    TOOL_CALLS,
    PLAN_WRITTEN,
    TASKS_ENDED_CHECK,
    CODE_CHANGED,
    CHANGE_OR_ANSWER,
)
"""The checks that belong to no feature. Those with the same `order` run in this order."""
