"""Writes docs/demo.svg: what `headgate demo` shows on a terminal."""

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from headgate.cli.live import STYLES

TARGET = Path(__file__).parents[1] / "docs" / "demo.svg"
WIDTH = 104


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "COLUMNS": str(WIDTH)}
        done = subprocess.run(
            [sys.executable, "-m", "headgate", "demo", "--into", f"{place}/basket"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
    lines = done.stdout.replace(f"{place}/", "").splitlines()
    console = Console(record=True, width=WIDTH, file=StringIO(), highlight=False)
    for line in lines[2:-2]:
        console.print(styled(line))
    svg = console.export_svg(title="make demo")
    # The fonts named in the picture would be fetched from elsewhere; a terminal's own will do.
    TARGET.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")


def styled(line: str) -> Text:
    clock = re.match(r"\[[\d:]+\] ", line)
    rest = line[clock.end() :] if clock else line
    style = next((style for start, style in STYLES if rest.startswith(start)), "")
    if line.startswith("$"):
        style = "bold"
    return Text.assemble((clock[0] if clock else "", "dim"), (rest, style))


if __name__ == "__main__":
    main()
