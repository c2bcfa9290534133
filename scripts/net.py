"""Compares what Headgate does before and after a change that should alter nothing.

    python scripts/net.py BASE [--only PART] [--every N]

BASE is a commit. Both BASE and the present tree run every scenario, and write down what can be seen from
outside: each request to the model, each event, the report, the files left behind, what commands print, help
texts, schemas and the HTTP interface. Stores that BASE made (finished, stuck, interrupted, queued, ...) are
read, resumed and undone by both. BASE runs twice: what differs between these two recordings, such as a
process id in a message, is not compared.

Differences are printed. Those that scripts/net_accepted.yaml lists, as `part: reason`, are only counted.
"""

import argparse
import asyncio
import concurrent.futures
import dataclasses
import difflib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).resolve().parent.parent
KEPT = Path(tempfile.gettempdir()) / "headgate-net-kept"
OWN = hashlib.sha256(str(TOP).encode()).hexdigest()[:4]
PLACE = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()) / f"headgate-net-{OWN}"
"""A folder of this checkout's own, so that several can compare at once. Names are of one length."""
PORT = 20000 + int(OWN, 16) % 10000
UNTOLD = {
    "at",
    "began",
    "seconds",
    "total_seconds",
    "duration",
    "wall",
    "started",
    "ended",
    "pid",
    "mtime",
    "machine",
}
_RUN = re.compile(r"run_\d{8}_\d{6}_[0-9a-f]{6}")
_VARYING = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "CLOCK"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds?|min)\b"), "N s"),
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
    (re.compile(r"headgate-net-[0-9a-f]{4}"), "headgate-net-PLACE"),
    (re.compile(r"\bport \d+|127\.0\.0\.1:\d+"), "PORT"),
]


def environment(tree: Path, place: Path) -> dict[str, str]:
    """As tests have it: no keys, no servers, no sandbox, fixed times of commits."""
    unwanted = ("HEADGATE_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "LOCALCODE_", "PYTHON")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    config = place / "config"
    for name, text in (
        ("headgate/config.yaml", "sandbox: off\napprovals: never\n"),
        ("git/config", "[maintenance]\n\tauto = false\n[user]\n\tname = Net\n\temail = net@localhost\n"),
    ):
        (config / name).parent.mkdir(parents=True, exist_ok=True)
        (config / name).write_text(text)
    interpreters = Path(sys.executable).resolve().parent
    return env | {
        "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree / 'tests'}",
        "PYTHONHASHSEED": "0",
        "PATH": f"{interpreters}{os.pathsep}{env.get('PATH', os.defpath)}",
        "HEADGATE_SERVERS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "XDG_CONFIG_HOME": str(config),
        "XDG_CACHE_HOME": str(place / "cache"),
        "TMPDIR": str(place),
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        "COLUMNS": "100",
        "TZ": "UTC",
    }


def plain(value: Any) -> Any:
    """Anything as JSON, without times and random ids."""
    runs: dict[str, str] = {}

    def walk(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if isinstance(value, dict) or hasattr(value, "items"):
            return {str(key): walk(part) for key, part in value.items() if key not in UNTOLD}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [walk(part) for part in value]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        if isinstance(value, str):
            for pattern, instead in _VARYING:
                value = pattern.sub(instead, value)
            return _RUN.sub(lambda found: runs.setdefault(found[0], f"run_{len(runs) + 1}"), value)
        return value if isinstance(value, (int, float, bool, type(None))) else type(value).__name__

    return walk(value)


def read_tree(repo: Path) -> dict[str, str]:
    """The files of a repository by path: text as it is, anything else as a hash; of .headgate the names."""
    found = {}
    for folder, folders, names in os.walk(repo):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__", ".pytest_cache"))
        for name in sorted(names):
            path = Path(folder, name)
            shown = path.relative_to(repo).as_posix()
            if shown.startswith(".headgate/"):
                found[_RUN.sub("RUN", shown)] = ""
            elif path.is_symlink():
                found[shown] = f"-> {path.readlink()}"
            elif path.is_file():
                raw = path.read_bytes()
                try:
                    found[shown] = raw.decode()
                except UnicodeDecodeError:
                    found[shown] = hashlib.sha256(raw).hexdigest()
    return found


def fresh(name: str) -> Path:
    place = PLACE / "places" / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


# In a process of its own, with the code of one tree


def record_scenario(folder: Path, out: Path) -> None:
    """What one scenario shows through the engine. Runs with the tree's own code and runner."""
    from scenarios.runner import run_scenario

    place = fresh(folder.name)
    try:
        run = run_scenario(folder, place)
    except Exception as error:  # noqa: BLE001 - a scenario that cannot run is a difference like any other
        found: dict[str, Any] = {"failed": f"{type(error).__name__}: {error}"}
    else:
        sent = [
            {
                "messages": request.messages,
                "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
            }
            for request in run.model.requests
        ]
        found = {
            "requests": sent,
            "events": [event.as_json() for event in run.events],
            "report": run.report.model_dump(mode="json") if run.report else None,
            "exit": run.exit,
            "error": run.error,
            "diff": run.diff,
            "tasks": run.tasks,
            "waits": run.waits,
            "tree": read_tree(run.repo),
        }
    write(out / "scenarios" / f"{folder.name}.json", found)
    shutil.rmtree(place, ignore_errors=True)


def write(path: Path, found: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain(found), indent=1, default=str), encoding="utf-8")


# Through the command line


@dataclasses.dataclass
class Commands:
    """`headgate` of one tree."""

    tree: Path
    env: dict[str, str]

    def start(self, repo: Path, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headgate", *arguments]
        return subprocess.Popen(
            command, cwd=repo, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
        )

    def run(self, repo: Path, *arguments: str, given: str = "") -> dict[str, Any]:
        process = self.start(repo, *arguments, stdin=subprocess.PIPE)
        out, err = process.communicate(given.encode(), timeout=300)
        return {"command": arguments, "exit": process.returncode, "out": lines(out), "err": lines(err)}


def lines(raw: bytes) -> list[str]:
    return raw.decode("utf-8", "backslashreplace").splitlines()


def record_commands(commands: Commands, folder: Path, out: Path) -> None:
    """What a person reads who runs a scenario's task and looks back at it."""
    flags = yaml.safe_load((folder / "flags.yaml").read_text()) if (folder / "flags.yaml").exists() else {}
    if (
        set(flags or {}) - {"keep", "non_goal", "boundary", "flow", "dry_run"}
        or (folder / "user.yaml").exists()
    ):
        return
    place = fresh(f"cli-{folder.name}")
    made = [
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from scenarios.runner import make_repo; ",
    ]
    made[2] += "make_repo(Path(sys.argv[1]), Path(sys.argv[2]))"
    repo = place / "repo"
    subprocess.run([*made, str(folder), str(repo)], env=commands.env, check=True, capture_output=True)
    options = ["--model", f"script:{folder / 'script.yaml'}"]
    for name in ("keep", "non_goal", "boundary"):
        for value in flags.get(name, ()):
            options += [f"--{name.replace('_', '-')}", value]
    options += ["--flow", flags["flow"]] if flags.get("flow") else []
    options += ["--dry-run"] if flags.get("dry_run") else []
    text = (folder / "task.txt").read_text(encoding="utf-8")
    shown = [commands.run(repo, "run", *options, "-", given=text)]
    shown += [
        commands.run(repo, *words) for words in (("show", "--detail"), ("report",), ("tasks",), ("diff",))
    ]
    write(out / "commands" / f"{folder.name}.json", shown)
    shutil.rmtree(place, ignore_errors=True)


def record_interfaces(commands: Commands, out: Path) -> None:
    """Help of all commands, generated pages, the HTTP interface, schemas of files."""
    place = fresh("interfaces")
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    top = commands.run(place, "--help")
    names = re.findall(r"^  ([a-z]+)  ", "\n".join(top["out"]), re.MULTILINE)
    write(out / "interfaces" / "help.json", [top, *(commands.run(place, name, "--help") for name in names)])
    for page in ("cli.md", "configuration.md"):
        write(out / "interfaces" / f"{page}.json", (commands.tree / "docs" / page).read_text().splitlines())
    code = "import json; from headgate.config import Config; print(json.dumps(Config.model_json_schema()))"
    schema = subprocess.run([sys.executable, "-c", code], env=commands.env, capture_output=True, check=False)
    write(out / "interfaces" / "config_schema.json", json.loads(schema.stdout or b"null"))
    (place / "agent.yaml").write_text("model: script:s.yaml\n")
    (place / "s.yaml").write_text("[]\n")
    server = commands.start(place, "serve", "--port", str(PORT), stdin=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/openapi.json") as answer:
                    write(out / "interfaces" / "openapi.json", json.load(answer))
                break
            except OSError:
                time.sleep(0.1)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    shutil.rmtree(place, ignore_errors=True)


# Stores that the base made

EDIT = {"calls": [{"edit_file": {"path": "a.py", "old": "return 1", "new": "return 2"}}]}
READ = {"calls": [{"read_file": {"path": "a.py"}}]}
DONE = {"calls": [{"stage_done": {"summary": "Changed a.py."}}]}
BAD = {"calls": [{"edit_file": {"path": "a.py", "old": "return 1", "new": "return 3"}}]}
WAIT = {"text": "Thinking.", "delay": 60}
STORES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, ...]]]] = {
    "success": ([READ, EDIT, DONE], [("run", "Return 2")]),
    "stuck": ([READ, BAD, DONE] + [DONE] * 8, [("run", "Return 2")]),
    "proposed": ([READ, EDIT, DONE], [("run", "--dry-run", "Return 2")]),
    "applied": ([READ, EDIT, DONE], [("run", "--dry-run", "Return 2"), ("apply", "t1")]),
    "undone": ([READ, EDIT, DONE], [("run", "Return 2"), ("undo", "t1")]),
    "worktree": ([READ, EDIT, DONE], [("run", "--worktree", "Return 2")]),
    "queued": (
        [READ, EDIT, DONE],
        [("submit", "--no-start", "Return 2"), ("submit", "--no-start", "Return 3")],
    ),
    "cancelled": ([READ, WAIT], [("kill", "INT", "run", "Return 2")]),
    "interrupted": ([READ, EDIT, WAIT, DONE], [("kill", "KILL", "run", "Return 2")]),
    "infra": ([{"error": {"kind": "unavailable", "message": "nobody there"}}] * 9, [("run", "Return 2")]),
}


def make_stores(commands: Commands) -> None:
    """A repository with a store for each of STORES, made by the base."""
    for name, (entries, steps) in STORES.items():
        repo = KEPT / "stores" / name
        shutil.rmtree(repo, ignore_errors=True)
        repo.mkdir(parents=True)
        (repo / "a.py").write_text("def f():\n    return 1\n")
        (repo / "check.py").write_text("import a\nassert a.f() == 2\n")
        (repo / "script.yaml").write_text(json.dumps(entries))
        steps_yaml = "verification: {steps: [{name: check, command: python3 check.py}]}\n"
        (repo / "agent.yaml").write_text(f"model: script:script.yaml\nflow: flat\nscouts: off\n{steps_yaml}")
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
            subprocess.run(["git", *command], cwd=repo, env=commands.env, check=True)
        for step in steps:
            if step[0] == "kill":
                process = commands.start(repo, *step[2:], "--json", stdin=subprocess.DEVNULL)
                assert process.stdout
                asked = sum("delay" not in entry for entry in entries[: entries.index(WAIT)])
                while asked and (line := process.stdout.readline()):
                    asked -= b'"kind":"turn_ended"' in line.replace(b" ", b"") or b"reply_received" in line
                time.sleep(1)  # until the request that is not answered is under way
                process.send_signal(getattr(signal, f"SIG{step[1]}"))
                process.communicate(timeout=60)
            else:
                commands.run(repo, *step)


LOOKS: list[tuple[str, ...]] = [
    ("tasks", "--json"),
    ("show", "t1", "--json"),
    ("show", "t1", "--detail"),
    ("report", "t1", "--json"),
    ("report", "t1"),
    ("diff", "t1"),
]
ACTS = {
    "success": [("undo", "t1"), ("undo", "t1")],
    "stuck": [("run", "--resume", "t1", "again")],
    "proposed": [("apply", "t1")],
    "applied": [("undo", "t1")],
    "worktree": [("apply", "t1"), ("undo", "t1")],
    "queued": [("cancel", "t2"), ("run", "one more")],
    "interrupted": [("run", "--resume", "t1")],
}


def record_stores(commands: Commands, out: Path) -> None:
    for name in STORES:
        place = fresh(f"store-{name}")
        repo = place / "repo"
        shutil.copytree(KEPT / "stores" / name, repo, symlinks=True)
        if name == "interrupted":
            (repo / "script.yaml").write_text(json.dumps([READ, EDIT, DONE]))
        shown = [commands.run(repo, *words) for words in LOOKS]
        shown += [commands.run(repo, *words) for words in ACTS.get(name, [])]
        shown += [commands.run(repo, *words) for words in LOOKS] if name in ACTS else []
        write(out / "stores" / f"{name}.json", {"shown": shown, "tree": read_tree(repo)})
        shutil.rmtree(place, ignore_errors=True)


# Recording and comparing


def record(tree: Path, out: Path, only: str, every: int, folders: list[Path]) -> None:
    shutil.rmtree(out, ignore_errors=True)
    commands = Commands(tree, environment(tree, PLACE))
    asked = [folder for folder in folders if not only or only in f"scenarios/{folder.name}"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
        parts = [
            pool.submit(
                subprocess.run,
                [sys.executable, __file__, "--scenarios", str(out), *map(str, asked[part::3])],
                env=commands.env,
                check=True,
                cwd=PLACE,
            )
            for part in range(3)
            if asked[part::3]
        ]
        for part in parts:
            part.result()
        shown = [folder for folder in folders[::every] if not only or only in f"commands/{folder.name}"]
        list(pool.map(lambda folder: record_commands(commands, folder, out), shown))
    if only in "interfaces":
        record_interfaces(commands, out)
    if only in "stores":
        record_stores(commands, out)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from leaves(part, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for number, part in enumerate(value):
            yield from leaves(part, f"{path}/{number}")
    else:
        yield path, value


def compare(first: Path, again: Path, now: Path, only: str, accepted: dict[str, str]) -> int:
    """Prints what is different now; returns how many files differ in a way that is not accepted."""
    found = {path.relative_to(root).as_posix() for root in (first, now) for path in root.rglob("*.json")}
    names = sorted(name for name in found if only in name)
    counts: Counter[str] = Counter()
    for name in names:
        texts = [
            json.loads((root / name).read_text()) if (root / name).exists() else None
            for root in (first, again, now)
        ]
        flat = [dict(leaves(value)) for value in texts]
        unstable = {
            path for path in flat[0].keys() | flat[1].keys() if flat[0].get(path) != flat[1].get(path)
        }
        paths = [path for path in [*flat[0], *(flat[2].keys() - flat[0].keys())] if path not in unstable]
        differences = [path for path in paths if flat[0].get(path) != flat[2].get(path)]
        if not differences:
            counts["equal"] += 1
            continue
        if reason := next((why for part, why in accepted.items() if part in name), None):
            counts[f"accepted: {reason}"] += 1
            continue
        counts["different"] += 1
        print(f"\n{name}: {len(differences)} differences")
        for path in differences[:4]:
            was, now_is = (
                json.dumps(side.get(path), ensure_ascii=False)[:600] for side in (flat[0], flat[2])
            )
            print(f"  {path}")
            for line in difflib.ndiff([was], [now_is]):
                if not line.startswith("?"):
                    print(f"    {line}")
    print("\n" + "\n".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return counts["different"]


def main() -> int:
    if sys.argv[1:2] == ["--scenarios"]:
        for folder in map(Path, sys.argv[3:]):
            record_scenario(folder, Path(sys.argv[2]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("--only", default="", help="a part of a recording's name, such as scenarios/250")
    parser.add_argument("--every", type=int, default=5, help="one in N scenarios is also run as commands")
    given = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", given.base], cwd=TOP, check=True, capture_output=True, text=True
    )
    sha = commit.stdout.strip()[:12]
    tree = KEPT / sha
    if not tree.exists():
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(tree), sha], cwd=TOP, check=True)
    folders = sorted(path.parent for path in (tree / "tests" / "scenarios").glob("*/task.txt"))
    if not (KEPT / "stores").exists():
        make_stores(Commands(tree, environment(tree, PLACE)))
    for number in (1, 2):
        out = KEPT / f"{sha}-{number}"
        if not out.exists():
            record(tree, out, "", given.every, folders)
    record(TOP, KEPT / f"now-{OWN}", given.only, given.every, folders)
    listed = TOP / "scripts" / "net_accepted.yaml"
    accepted = yaml.safe_load(listed.read_text()) or {} if listed.exists() else {}
    return min(1, compare(KEPT / f"{sha}-1", KEPT / f"{sha}-2", KEPT / f"now-{OWN}", given.only, accepted))


if __name__ == "__main__":
    asyncio.set_event_loop_policy(None)
    sys.exit(main())
