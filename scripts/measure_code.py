"""How the code is laid out, in figures, and what one task and one turn touch of it.

    python scripts/measure_code.py [SRC] [--limits]

SRC is a folder with the package (default: this project's src). A room is a package directly below it. The
task is real: a scratch repository with one verification step, and a scripted model that reads a file, edits
it and says that it is done. It is traced in a process of its own. The turn is the one with the edit.

`--limits` prints nothing but what is above `LIMITS`, and exits 1 if anything is.
"""

import ast
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median

PACKAGE = "headgate"
LIMITS = {
    "modules in the turn": 67,
    "modules in the task": 209,
    "modules imported by the task": 330,
    "snapshots in the task": 4,
    "scans for secrets in the task": 6,
    "git processes in the task": 3,
}
"""Figures that may fall, and rise only where somebody decides so. Functions depend on the machine."""
TRIES = 3
"""What other threads do during the turn differs a little from run to run: the least counts."""
TRACED = """
import json, sys, threading
from pathlib import Path

src, counted = sys.argv.pop(1), ("take", "look")
task, turns, processes, calls, begun = set(), [], [], {}, {}

def see(frame, what, extra):
    code = frame.f_code
    if what != "call" or not code.co_filename.startswith(src):
        return
    if not code.co_flags & 1 or code.co_name in ("<genexpr>", "<listcomp>"):  # bodies of modules and classes
        return
    entry = (code.co_filename, code.co_qualname, code.co_firstlineno)
    task.add(entry)
    if code.co_name == "take_turn":
        if all(frame is not turn for turn, _ in turns):
            turns.append((frame, []))
    if code.co_flags & 0x2A0 and begun.setdefault(id(frame), (len(turns), frame))[0] < len(turns):
        return  # a coroutine that began before the turn, and only waits for what it awaits
    if turns:
        turns[-1][1].append((*entry, threading.current_thread() is threading.main_thread()))
    if code.co_name in counted:
        calls[code.co_qualname] = calls.get(code.co_qualname, 0) + 1

def note_process(event, arguments):
    if event == "subprocess.Popen":
        processes.append([str(part) for part in arguments[1]])

from headgate.cli.main import main
sys.addaudithook(note_process)
threading.setprofile(see)
sys.setprofile(see)
try:
    main()
finally:
    sys.setprofile(None)
    found = {"task": sorted(task), "turns": [entries for _, entries in turns]}
    found |= {"processes": processes, "calls": calls}
    found["imported"] = [name for name in sys.modules if name.partition(".")[0] == "headgate"]
    Path("traced.json").write_text(json.dumps(found))
"""
SCRIPT = """
- calls: [{read_file: {path: a.txt}}]
- calls: [{edit_file: {path: a.txt, old: one, new: two}}]
- calls: [{stage_done: {summary: Done.}}]
"""
CONFIG = "verification: {steps: [{name: check, command: grep -q two a.txt}]}\n"
CLASSES = {
    "State": ("core/state.py", "State"),
    "StageState": ("core/attempt.py", "StageState"),
    "Report": ("log/report.py", "Report"),
    "Job": ("run/job.py", "Job"),
    "Kind": ("run/stage.py", "Kind"),
}
"""Whose fields are counted, and where each class is."""


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


def measure_layout(src: Path) -> dict[str, int | str]:
    """Files, lines, faces and fan-out."""
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
    return {
        "files": len(modules),
        "lines": sum(sizes.values()),
        "lines of tests": sum(_count(path) for path in (src.parent / "tests").rglob("*.py")),
        "median module": f"{median(sizes.values()):.0f} lines",
        "longest module": f"{sizes[longest]} lines ({longest})",
        "names in the face of core": len(imports(modules[f"{PACKAGE}.core"])),
        "names used outside their room": sum(map(len, used.values())),
        "widest fan-out": f"{fan_out[widest]} modules ({widest})",
        **{f"fields of {name}": _fields(src, *where) for name, where in CLASSES.items()},
    }


def measure_task(src: Path) -> dict[str, int | str]:
    """What one task and one turn of it touch."""
    with tempfile.TemporaryDirectory(prefix="headgate-measured-") as folder:
        found = _trace(src, Path(folder))
        entries = found["turns"][1]
        in_order = [entry[0] for entry in entries if entry[3]]
        changes = sum(one != two for one, two in pairwise(in_order))
        snapshots = sum(count for name, count in found["calls"].items() if name == "Snapshots.look")
        scans = sum(count for name, count in found["calls"].items() if name == "SecretScan.look")
        return {
            "modules in the turn": len({entry[0] for entry in entries}),
            "functions in the turn": len({tuple(entry[:3]) for entry in entries}),
            "changes of module in the turn": changes,
            "modules in the task": len({entry[0] for entry in found["task"]}),
            "functions in the task": len(found["task"]),
            "modules imported by the task": len(found["imported"]),
            "snapshots in the task": snapshots,
            "scans for secrets in the task": scans,
            "git processes in the task": sum(
                Path(command[0]).name == "git" for command in found["processes"]
            ),
            "other processes in the task": sum(
                Path(command[0]).name != "git" for command in found["processes"]
            ),
        }


def measure_cpu(src: Path) -> str:
    """The median of five runs."""
    with tempfile.TemporaryDirectory(prefix="headgate-measured-") as folder:
        return f"{median(_cpu(src, Path(folder)) for _ in range(5)):.2f} s with its start"


def _make_repository(folder: Path) -> Path:
    repo = Path(tempfile.mkdtemp(dir=folder))
    for name, text in (("a.txt", "one\n"), ("agent.yaml", CONFIG)):
        (repo / name).write_text(text)
    (folder / "script.yaml").write_text(SCRIPT)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Start"]):
        who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
        subprocess.run(["git", *who, *command], cwd=repo, check=True)
    return repo


def _run(src: Path, folder: Path, *program: str) -> Path:
    repo = _make_repository(folder)
    command = [
        *program,
        "run",
        "--flow",
        "flat",
        "--model",
        f"script:{folder / 'script.yaml'}",
        "Change a.txt",
    ]
    environment = {**os.environ, "PYTHONPATH": str(src), "XDG_CONFIG_HOME": str(folder / "config")}
    subprocess.run(command, cwd=repo, env=environment, capture_output=True, check=True)
    return repo


def _trace(src: Path, folder: Path) -> dict:
    repo = _run(src, folder, sys.executable, "-c", TRACED, str(src))
    return json.loads((repo / "traced.json").read_text())


def _cpu(src: Path, folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    repo = _run(src, folder, sys.executable, "-m", PACKAGE)
    assert repo.exists()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _fields(src: Path, file: str, name: str) -> int | str:
    """How many fields a class declares."""
    path = src / PACKAGE / file
    for node in ast.walk(ast.parse(path.read_text())) if path.exists() else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return sum(isinstance(part, ast.AnnAssign) for part in node.body)
    return "not found"


def _lines(src: Path, module: str) -> int:
    path = src / Path(*module.split("."))
    file = path.with_suffix(".py")
    return _count(file if file.exists() else path / "__init__.py")


def _count(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def find_excess(task: dict[str, str]) -> dict[str, str]:
    """The figures that are above their limits."""
    return {what: figure for what, figure in task.items() if what in LIMITS and int(figure) > LIMITS[what]}


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--limits"]
    src = Path(arguments[0] if arguments else Path(__file__).parents[1] / "src").resolve()
    if "--limits" in sys.argv:
        over: dict[str, str] = {}
        for _ in range(TRIES):
            over = find_excess(measure_task(src))
            if not over:
                return 0
        for what, figure in over.items():
            print(f"{what}: {figure}, and the limit is {LIMITS[what]}")
        return 1
    figures = measure_layout(src) | measure_task(src) | {"CPU of the task": measure_cpu(src)}
    for what, figure in figures.items():
        print(f"{what:31} {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
