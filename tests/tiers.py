"""Which tests `make test`, `make check` and `make everything` run: each folder of tests is in one tier."""

from pathlib import Path

HERE = Path(__file__).parent
UNIT = "unit"
"""One room at a time, with few processes. `make test` runs these and the tour."""
WHOLE = "whole"
"""Whole tasks, commands and servers. `make check` runs these as well."""
HARD = "hard"
"""Kills, escapes, misbehaving models, real models, browsers: `make everything`."""

FOLDERS = {
    "checks": UNIT,
    "config": UNIT,
    "core": UNIT,
    "features": UNIT,
    "guard": UNIT,
    "log": UNIT,
    "models": UNIT,
    "outlines": UNIT,
    "process": UNIT,
    "reading": UNIT,
    "run": UNIT,
    "tools": UNIT,
    "tree": UNIT,
    "cli": WHOLE,
    "docs": WHOLE,
    "engine": WHOLE,
    "library": WHOLE,
    "scenarios": WHOLE,
    "server": WHOLE,
    "bench": HARD,
    "bestiary": HARD,
    "crash": HARD,
    "escapes": HARD,
    "evaluation": HARD,
    "local": HARD,
}
FILES = {"cli/test_browser.py": HARD, "server/test_contract.py": HARD}
"""Files in another tier than their folder."""
COMMANDS = {
    "test": (UNIT,),
    "check": (UNIT, WHOLE),
    "everything": (UNIT, WHOLE, HARD),
    "rest": (WHOLE, HARD),
}
"""`rest` is what `make test` leaves out of `make everything`."""


def tier_of(path: Path) -> str:
    """The tier of a file or folder of tests; empty for what is in none."""
    shown = path.relative_to(HERE)
    return FILES.get(shown.as_posix()) or FOLDERS.get(shown.parts[0] if shown.parts else "", "")


def is_left_out(command: str, path: Path) -> bool:
    """Whether a command runs nothing of a file or folder. The tour is taken from scenarios by name."""
    tier = tier_of(path)
    if tier not in (UNIT, WHOLE, HARD) or tier in COMMANDS[command]:
        return False
    return command != "test" or path.relative_to(HERE).parts[0] != "scenarios"


def tour() -> frozenset[str]:
    """The scenarios that `make test` runs: about one for each thing that other people's scripts rely on."""
    lines = (HERE / "scenarios" / "tour.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line.split()[0] for line in lines if line and not line.startswith("#"))
