"""Tasks, the store and the repository lock: everything that outlives one run."""

from headgate.engine.assembly import build_verifier, check_monorepo, known_tests
from headgate.engine.engine import RETRIED_STATES, Engine, load_options
from headgate.engine.flow_models import SPECS, check_price
from headgate.engine.following import Wait
from headgate.engine.tree import diff_of

__all__ = [
    "RETRIED_STATES",
    "SPECS",
    "Engine",
    "Wait",
    "build_verifier",
    "check_monorepo",
    "check_price",
    "diff_of",
    "known_tests",
    "load_options",
]
