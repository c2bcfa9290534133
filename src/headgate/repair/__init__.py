"""Repair: the kinds of stages that ask for code, or change it, and try that out in copies of the tree."""

from headgate.repair.candidates import ANSWER
from headgate.repair.mutate import MUTATE
from headgate.repair.suspects import SUSPECTS
from headgate.run import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (SUSPECTS, ANSWER, MUTATE)}
