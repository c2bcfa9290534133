"""Tasks, the store and the repository lock: everything that outlives one run."""

from headgate.engine.assembly import build_verifier, known_tests
from headgate.engine.engine import RETRIED_STATES, Engine
from headgate.engine.flow_models import CHECK_SPECS, KIND_SETTINGS, SPECS, FlowParts, check_price
from headgate.engine.resolved import ConfigReader, resolve_package
from headgate.engine.task_follower import QueueWait
from headgate.engine.tree import diff_of

__all__ = [
    "CHECK_SPECS",
    "KIND_SETTINGS",
    "RETRIED_STATES",
    "SPECS",
    "ConfigReader",
    "Engine",
    "FlowParts",
    "QueueWait",
    "build_verifier",
    "check_price",
    "diff_of",
    "known_tests",
    "resolve_package",
]
