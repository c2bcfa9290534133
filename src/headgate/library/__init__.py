"""Headgate as a Python library: flows with functions and types of a program's own."""

from headgate.library.callbacks import Callbacks
from headgate.library.checkpoints import Checkpoint
from headgate.library.flow import Flow, Stage
from headgate.library.functions import tool
from headgate.library.request import RunOptions
from headgate.library.results import FlowResult, StageResult
from headgate.library.run import (
    FlowRun,
    RestoredFlow,
    restore_flow,
    run_flow,
    run_flow_sync,
    start_flow,
)
