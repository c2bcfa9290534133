"""Every folder beside this file is a whole run. One test each."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from headgate.core import TaskReport
from headgate.log import REQUIRED
from headgate.process import NoSandbox, find_bubblewrap
from scenarios.runner import (
    Outcome,
    Run,
    count_told,
    describe,
    find_in_order,
    matches,
    read_outcome,
    run_scenario,
)
from tiers import tour

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("*/task.txt"))


def test_there_are_scenarios() -> None:
    assert FOLDERS
    assert all((folder / "expected" / "outcome.yaml").exists() for folder in FOLDERS)
    assert tour() <= {folder.name for folder in FOLDERS}


def test_a_number_names_one_scenario() -> None:
    numbers = Counter(folder.name.partition("_")[0] for folder in FOLDERS)
    assert [number for number, times in numbers.items() if times > 1] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_scenario(folder: Path, tmp_path: Path) -> None:
    expected = read_outcome(folder)
    if expected.sandboxed and isinstance(missing := find_bubblewrap(os.environ.get("PATH")), NoSandbox):
        pytest.skip(missing.reason)
    run = run_scenario(folder, tmp_path)
    check_script(expected, run)
    told = run.report.summary if run.report else run.error
    assert run.exit == expected.exit, told
    if expected.error is not None:
        assert expected.error in run.error
    if run.report is None:
        assert expected.error is not None, f"ended before it began: {run.error}"
    else:
        check_report(expected, run)
    check_events(expected, run)
    if expected.waits is not None:
        assert run.waits == expected.waits
    if expected.requests is not None:
        assert len(run.model.requests) == expected.requests
    assert {text: count_told(text, run) for text in expected.told} == expected.told
    if expected.tasks is not None:
        assert list(run.tasks) == expected.tasks
    check_diff(expected, run)
    check_tree(folder / "expected" / "tree", run.repo)
    assert [glob for glob in expected.present if not any(run.repo.glob(glob))] == []
    assert [path for path in expected.absent if os.path.lexists(run.repo / path)] == []


def check_script(expected: Outcome, run: Run) -> None:
    """An expectation that failed ends the run too, so it must not pass for the ending that was wanted."""
    fault = str(run.model.error) if run.model.error else ""
    if expected.script is not None:
        assert expected.script in fault
    else:
        assert fault == ""
        assert run.model.leftover() == []


def check_report(expected: Outcome, run: Run) -> None:
    assert run.report is not None
    report = run.report.model_dump(mode="json")
    assert {key: report[key] for key in expected.report} == expected.report
    assert [part for part in expected.summary if part not in run.report.summary] == [], run.report.summary
    assert [part for part in expected.unsaid if part in run.report.summary] == [], run.report.summary
    if expected.first_line is not None:
        assert run.report.summary.splitlines()[0] == expected.first_line
    if expected.runs is not None:
        assert len(set(run.report.run_ids)) == len(run.report.run_ids) == expected.runs
        runs = run.repo / ".headgate" / "runs"
        found = sorted(path.name for path in runs.iterdir()) if runs.exists() else []
        applied = [run.report.merge_run] if run.report.merge_run else []
        assert found == sorted([*run.report.run_ids, *applied])
        assert all((runs / name / "manifest.json").exists() for name in found)
        assert all((runs / name / "combined.log").exists() for name in found)
    reports = run.repo / ".headgate" / "task_reports.jsonl"
    lines = reports.read_text().splitlines() if reports.exists() else []
    assert len(lines) == sum(state in ("SUCCESS", "STUCK", "INFRA_ERROR") for state in run.tasks)
    told = [event.body.report for event in run.events if isinstance(event.body, TaskReport)]
    ended = [event for event in run.events if event.kind == "task_ended"]
    assert len(told) == len(ended)
    if ended and ended[-1].task == run.report.task_id and run.report.state != "PROPOSED":
        assert told[-1] == {name: report[name] for name in told[-1]}
        assert set(told[-1]) - {"error"} == set(REQUIRED)
    assert not [event for event in run.events if event.kind == "task_report_invalid"]


def check_diff(expected: Outcome, run: Run) -> None:
    assert [part for part in expected.diff or () if part not in run.diff.decode()] == [], run.diff.decode()
    if expected.diff == []:
        assert run.diff == b""
    if run.report and run.report.state == "PROPOSED" and run.diff and not run.report.conflicts:
        subprocess.run(["git", "apply", "--check"], cwd=run.repo, input=run.diff, check=True)


def check_events(expected: Outcome, run: Run) -> None:
    story = [describe(event) for event in run.events]
    assert find_in_order(expected.events, story) is None, "\n".join(map(str, story))
    unwanted = [pattern for pattern in expected.no_events if any(matches(pattern, event) for event in story)]
    assert unwanted == []


def check_tree(expected: Path, repo: Path) -> None:
    for path in sorted(expected.rglob("*")):
        if path.is_file():
            there = repo / path.relative_to(expected)
            assert there.exists(), f"{path.relative_to(expected)} is missing"
            assert there.read_bytes() == path.read_bytes(), path.relative_to(expected)
