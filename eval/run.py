"""`make eval-local`: Headgate and the baseline on the tasks of the evaluation, with a real model; and tables.

    python eval/run.py                     the baseline and Headgate as it comes, on all tasks
    python eval/run.py --runs all --tasks subset
    python eval/run.py --tasks-from DIR    other tasks: folders with `task.txt`, `level` and `repo`, and with
                                           `held_out` if tests that a run does not see judge what passed
    python eval/run.py --runs before,headgate --also before=VENV/bin/python
                                           takes turns with another version, in its own environment
    python eval/run.py --table             only print what there is

Results are kept, so that an interrupted run goes on; `--fresh` begins the named runs anew.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from baseline import Server, run_baseline
from evaltasks import (
    CHECK,
    TASKS,
    Result,
    Results,
    Task,
    all_tasks,
    check_environment,
    checked_out,
    is_solved,
    project_commit,
)
from halves import holds
from table import print_tables

from headgate.cli.local_server import local_server

RUNS: dict[str, dict[str, object]] = {
    "headgate": {},
    "flat": {"task_flow_mode": "flat"},
    "flat-native": {"task_flow_mode": "flat", "tool_transport": "native"},
    "flat-text": {"task_flow_mode": "flat", "tool_transport": "text"},
    "flat-schema": {"task_flow_mode": "flat", "tool_transport": "schema"},
    "staged-schema": {"task_flow_mode": "staged", "tool_transport": "schema"},
    "staged3-schema": {"task_flow_mode": "staged3", "tool_transport": "schema"},
    "repair": {"task_flow_mode": "repair"},
    "no-scouts": {"scouts": "off"},
    "staged-schema-no-scouts": {
        "task_flow_mode": "staged",
        "tool_transport": "schema",
        "scouts": "off",
    },
}
"""What is compared, and how its configuration differs. The first is Headgate as it comes."""
LOOKING_AROUND = ("ls", "search", "find_files")
"""Tools that a model calls when it does not know where something is."""


def run_headgate(task: Task, server: Server, run: str, args: argparse.Namespace) -> Result:
    """One task, by the command line, as a user would."""
    seconds, keep = args.seconds, args.keep
    result = Result(run, task.name, task.level, limit=f"{seconds} s")
    with checked_out(task) as repo, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "agent.yaml"
        settings = {
            "model": f"openai/{server.model}",
            "base_url": server.base_url,
            "verification": {"steps": [{"name": "tests", "command": CHECK, "timeout": 60}]},
            "limits": {"seconds": seconds},
            **RUNS.get(run, {}),
        }
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        environment = {
            **check_environment(),
            "HEADGATE_API_KEY": server.key,
            "XDG_CACHE_HOME": folder,
        }
        python = args.also.get(run, sys.executable)
        command = [python, "-P", "-m", "headgate", "run", task.text, "--json"]
        started = time.monotonic()
        done = subprocess.run(
            [*command, "--repo", str(repo), "--config", str(config)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        result.seconds = round(time.monotonic() - started, 1)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{run}-{task.name}.jsonl").write_text(done.stdout + done.stderr, encoding="utf-8")
            left_out = shutil.ignore_patterns(".git", ".headgate", "__pycache__", ".pytest_cache")
            shutil.copytree(repo, keep / f"{run}-{task.name}", ignore=left_out, dirs_exist_ok=True)
        if not lines or "state" not in lines[-1]:
            raise SystemExit(f"eval: Headgate printed no report for {task.name}:\n{done.stderr[-2000:]}")
        report = lines[-1]
        result.solved = is_solved(task, repo)
        if report["state"] == "SUCCESS" and not result.solved:
            result.notes["false_success"] = 1
        if result.solved and (task.folder / "held_out").exists():
            result.holds = holds(task, repo)
    result.flow, result.ending = report["flow"], f"{report['state']} {report['reason']}".strip()
    result.requests, result.prompt = report["requests"], report["prompt_tokens"]
    result.evaluated = report["prompt_tokens"] - report["cached_tokens"]
    result.completion = report["completion_tokens"]
    result.notes |= told(lines[:-1])
    return result


def told(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """What the events of a run come to: answers, or replies and calls, and what changes of stage cost.

    A final turn is such a change, too: it has fewer tools.
    """
    counts: Counter[str] = Counter()
    begun = turned = False
    for event in events:
        body = event["body"]
        match event["kind"]:
            case "stage_started":
                begun, turned = True, begun
            case "decision_made" if body["action"] == "final_turn":
                turned = True
            case "candidate_tried" if body.get("origin") == "mutation":
                counts["mutation"] += body["verdict"] == "passed"
            case "candidate_tried":
                counts[body["verdict"]] += 1
            case "reply_received":
                if turned:
                    counts["first_replies"] += 1
                    counts["read_for_these"] += body["prompt_tokens"] - body["cached_tokens"]
                    turned = False
                if not body["calls"]:
                    counts["no_call"] += 1
            case "reply_failed":
                counts["unusable_reply"] += 1
            case "tool_finished":
                counts["carried_out" if body["ok"] else "not_carried_out"] += 1
                counts["looked_around"] += body["name"] in LOOKING_AROUND
                if body["changed"]:
                    counts["changes"] += 1
    return counts


def parse_args() -> argparse.Namespace:
    """What to run."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"
    parser = argparse.ArgumentParser(description="Run Headgate on small real bugs with a small real model.")
    parser.add_argument("--runs", default="baseline,headgate", help=f"of baseline, {', '.join(RUNS)}; or all")
    parser.add_argument("--tasks", default="all", help="all, subset, or numbers such as 01,07")
    parser.add_argument("--tasks-from", type=Path, default=TASKS, help="a folder with tasks of the same form")
    parser.add_argument(
        "--model", type=Path, help="a GGUF file; by default the one that fetch-eval-model brings"
    )
    parser.add_argument("--seconds", type=int, default=180, help="for a task: then Headgate gives up")
    parser.add_argument("--threads", type=int, default=1, help="of the server")
    parser.add_argument("--base-url", help="a server that runs already, instead")
    parser.add_argument("--name", default="local", help="with --base-url: the model's name there")
    parser.add_argument("--results", type=Path, default=cache / "eval-results" / "results.jsonl")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the events of every run, and the files that it left"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what the named runs brought earlier")
    parser.add_argument("--table", action="store_true", help="only print the tables of what there is")
    parser.add_argument(
        "--also",
        action=OtherVersion,
        default={},
        metavar="RUN=PYTHON",
        help="a run of another Headgate with its defaults: the one that this interpreter has",
    )
    return parser.parse_args()


class OtherVersion(argparse.Action):
    """Collects `RUN=PYTHON` pairs into a dictionary."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        run, _, python = values.partition("=")
        if not run or not Path(python).is_file():
            parser.error(f"{option_string} {values}: write RUN=PYTHON, with the path of an interpreter.")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), run: python})


def main() -> None:
    """Runs what is missing, task by task, so that what is compared meets the same machine."""
    args = parse_args()
    results = Results(args.results)
    if args.table:
        print_tables(results.read())
        return
    runs = ["baseline", *RUNS] if args.runs == "all" else args.runs.split(",")
    if unknown := set(runs) - {"baseline", *RUNS, *args.also}:
        raise SystemExit(
            f"eval: there is no run {', '.join(sorted(unknown))}: choose of baseline, {', '.join(RUNS)}."
        )
    tasks = all_tasks(args.tasks, args.tasks_from)
    if args.base_url:
        carry_out(
            runs,
            tasks,
            Server(args.base_url, os.environ.get("HEADGATE_API_KEY", ""), args.name),
            results,
            args,
        )
    else:
        with local_server(args.model or fetched_model(), context=16384, threads=args.threads) as server:
            carry_out(runs, tasks, Server(server.base_url, server.key, server.model), results, args)
    print_tables(results.read())


def fetched_model() -> Path:
    """The model's file, fetched if it is not there yet."""
    script = Path(__file__).parents[1] / "scripts" / "fetch-eval-model"
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return Path(done.stdout.strip())


def carry_out(
    runs: list[str], tasks: list[Task], server: Server, results: Results, args: argparse.Namespace
) -> None:
    """Every run of every task that has no result with this model yet."""
    if args.fresh:
        results.forget(runs, server.model)
    commit = project_commit(ignored=results.file)
    for task in tasks:
        for run in runs:
            if results.missing(run, [task], server.model):
                server.forget()
                result = (
                    run_baseline(task, server, run)
                    if run == "baseline"
                    else run_headgate(task, server, run, args)
                )
                result.model, result.commit = server.model, "" if run in args.also else commit
                results.add(result)
                sign = ("solved" if result.holds is not False else "passes") if result.solved else "-"
                print(
                    f"{task.name:22} {run:22} {sign:7} {result.seconds:6.0f} s  {result.ending}", flush=True
                )


if __name__ == "__main__":
    main()
