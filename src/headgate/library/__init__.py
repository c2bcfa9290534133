"""Headgate as a Python library: flows with functions and types of a program's own."""

from headgate.library.flow import Flow, Stage
from headgate.library.functions import tool
from headgate.library.results import FlowResult, StageResult
from headgate.library.run import Callbacks, FlowRun, RunRequest, run_flow, run_flow_sync
