"""How the code is laid out, in figures: files, lines, faces, fan-out, and the modules that one turn visits.

    python scripts/measure_code.py [SRC]

SRC is a folder with the package (default: this project's src). A room is a package directly below it. The
turn is real: a task in a scratch repository whose model answers with two reads, traced in its own process.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

PACKAGE = "headgate"
TRACED = """
import json, sys, threading
from pathlib import Path

src, visited, turns = sys.argv.pop(1), set(), []

def see(frame, what, extra):
    name = frame.f_code.co_filename
    if what != "call" or not name.startswith(src):
        return
    if frame.f_code.co_name == "take_turn" and all(frame is not turn for turn in turns):
        turns.append(frame)
    if len(turns) == 1:
        visited.add(name)

from headgate.cli.main import main
threading.setprofile(see)
sys.setprofile(see)
try:
    main()
finally:
    sys.setprofile(None)
    Path("visited.json").write_text(json.dumps(sorted(visited)))
"""
SCRIPT = """
- calls: [{read_file: {path: a.txt}}, {read_file: {path: b.txt}}]
- calls: [{write_file: {path: a.txt, content: c}}, {stage_done: {summary: Done.}}]
"""


def read_modules(src: Path) -> dict[str, ast.Module]:
    """Every module but those of the sample project, by name."""
    found = {}
    for path in sorted((src / PACKAGE).rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        if "sample" not in parts:
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(module: ast.Module) -> list[tuple[str, str]]:
    """Pairs of a module of ours and a name that is imported from it."""
    return [
        (node.module, alias.name)
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE)
        for alias in node.names
    ]


def visited_by_one_turn(src: Path) -> list[str]:
    """The modules whose code runs between the beginning of the first turn and that of the second."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder)
        for name, text in (("a.txt", "a"), ("b.txt", "b"), ("script.yaml", SCRIPT)):
            (repo / name).write_text(text)
        subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
        command = [sys.executable, "-c", TRACED, str(src), "run", "--flow", "flat", "--model"]
        subprocess.run(
            [*command, "script:script.yaml", "Change a.txt"],
            cwd=repo,
            env={**os.environ, "PYTHONPATH": str(src), "XDG_CONFIG_HOME": folder},
            capture_output=True,
            check=True,
        )
        return list(json.loads((repo / "visited.json").read_text()))


def main(src: Path) -> None:
    modules = read_modules(src)
    sizes = {name: _lines(src, name) for name in modules}
    used, fan_out = defaultdict(set), {}
    for name, module in modules.items():
        pairs = imports(module)
        fan_out[name] = len({f"{m}.{n}" if f"{m}.{n}" in modules else m for m, n in pairs} - {name})
        for source, imported in pairs:
            if room_of(source) != room_of(name) and f"{source}.{imported}" not in modules:
                used[room_of(source)].add(imported)
    longest, widest = max(sizes, key=sizes.__getitem__), max(fan_out, key=fan_out.__getitem__)
    figures = {
        "files": len(modules),
        "lines": sum(sizes.values()),
        "median module": f"{median(sizes.values()):.0f} lines",
        "longest module": f"{sizes[longest]} lines ({longest})",
        "names used outside their room": sum(map(len, used.values())),
        "modules visited by one turn": len(visited_by_one_turn(src)),
        "widest fan-out": f"{fan_out[widest]} modules ({widest})",
    }
    for what, figure in figures.items():
        print(f"{what:30} {figure}")


def _lines(src: Path, module: str) -> int:
    path = src / Path(*module.split("."))
    file = path.with_suffix(".py")
    file = file if file.exists() else path / "__init__.py"
    return len(file.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "src").resolve())
