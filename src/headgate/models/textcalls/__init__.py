"""Tool calls that models write as text, in all their forms."""

from headgate.models.textcalls.parse import CallScanner, parse_calls
from headgate.models.textcalls.result import CallProblem, ParsedCall, ParsedReply
from headgate.models.textcalls.table import NAMES

__all__ = ["NAMES", "CallProblem", "CallScanner", "ParsedCall", "ParsedReply", "parse_calls"]
