"""Tool calls that models write as text, in all their forms."""

from headgate.models.textcalls.parse import CallScanner, parse_calls
from headgate.models.textcalls.result import Parsed, ParsedCall, Problem
from headgate.models.textcalls.table import NAMES

__all__ = ["NAMES", "CallScanner", "Parsed", "ParsedCall", "Problem", "parse_calls"]
