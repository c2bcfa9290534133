"""The marks around thinking, by family."""

import re
from collections.abc import Mapping

PAIRS: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
FINAL = "[BEGIN FINAL RESPONSE]"
"""Ends the thinking of models that begin every reply with it."""
OPENING = "|".join(re.escape(mark) for mark in PAIRS)
CLOSING = "|".join(re.escape(mark) for mark in (*PAIRS.values(), FINAL) if mark != "<channel|>")
