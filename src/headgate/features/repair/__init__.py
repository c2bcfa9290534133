"""Repair: the kinds of stages that ask for code, or change it, and try that out in copies of the tree."""

from headgate.features.repair.candidates import Answer
from headgate.features.repair.mutate import Mutate
from headgate.features.repair.suspects import Suspects
from headgate.run import Feature

FEATURE = Feature(kinds=(Suspects(), Answer(), Mutate()))
