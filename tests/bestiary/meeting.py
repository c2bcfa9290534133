"""Meeting several models in one process."""

import asyncio
import tempfile
import warnings
from pathlib import Path

from bestiary.catalogue import ROWS
from bestiary.habitat import meet
from bestiary.server import serving
from bestiary.table import Finding
from bestiary.useless import USELESS


def meet_all(names: list[str]) -> list[Finding]:
    """Meets these, one after the other, with one server. Warnings are errors, as they are in tests."""
    known = ROWS | USELESS
    warnings.simplefilter("error")
    with serving() as cage, tempfile.TemporaryDirectory() as place:
        return [Finding.of(asyncio.run(meet(known[name], cage, Path(place)))) for name in names]
