"""Writes docs/demo.svg: a recording of what `headgate demo` shows on a terminal, line by line."""

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
    draw(lines[2:-2], "make demo", TARGET)


def draw(lines: list[str], title: str, target: Path) -> None:
    """Writes a picture of a terminal with these lines."""
    console = Console(record=True, width=WIDTH, file=StringIO(), highlight=False)
    for line in lines:
        console.print(styled(line))
    # The same picture has the same names in it each time.
    svg = console.export_svg(title=title, unique_id=target.stem)
    # The fonts named in the picture would be fetched from elsewhere; a terminal's own will do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    target.write_text(animated(svg, lines), encoding="utf-8")


def animated(svg: str, lines: list[str]) -> str:
    """The picture with its lines appearing one after the other, where the reader wants motion."""
    rules, at = [], 0.0
    for number, line in enumerate(lines):
        at += 0.45 if line.startswith("[") else 0.12
        rules.append(f'text[clip-path$="line-{number})"] {{ animation-delay: {at:.2f}s }}')
    motion = "text[clip-path] { animation: appear 0.01s both } @keyframes appear { from { opacity: 0 } }"
    style = f"@media (prefers-reduced-motion: no-preference) {{ {motion} {' '.join(rules)} }}"
    return svg.replace("</style>", f"{style}</style>", 1)


def styled(line: str) -> Text:
    clock = re.match(r"\[[\d:]+\] ", line)
    rest = line[clock.end() :] if clock else line
    style = next((style for start, style in STYLES if rest.startswith(start)), "")
    if line.startswith(("$", "> ")):
        style = "bold"
    elif not clock and line.startswith(("+", "-")):
        style = "green" if line[0] == "+" else "red"
    return Text.assemble((clock[0] if clock else "", "dim"), (rest, style))


if __name__ == "__main__":
    main()
