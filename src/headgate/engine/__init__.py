"""Tasks, the store and the repository lock: everything that outlives one run."""

from headgate.engine.activity import Activity, count_tokens
from headgate.engine.assembly import build_verifier, find_sandbox, guards_for, known_tests
from headgate.engine.bring_in import Overlap
from headgate.engine.engine import Engine
from headgate.engine.event_detail import detail_lines
from headgate.engine.feature_list import ALL_CHECKS, FEATURES, KINDS
from headgate.engine.flow_models import check_price
from headgate.engine.merging import Merged, MergeProgress, is_mergeable
from headgate.engine.own_command import run_own_command
from headgate.engine.resolved import (
    CHECK_SPECS,
    FLOW_NAMES,
    SPECS,
    ConfigReader,
    FlowParts,
    find_recipes,
    resolve_package,
    with_recipes,
)
from headgate.engine.steps import StepsOutcome, missing_of_steps, run_steps
from headgate.engine.successors import RETRIED_STATES
from headgate.engine.task_follower import QueueWait
from headgate.engine.tree import diff_of
from headgate.engine.undo import Undone, find_undoable
