"""Every folder beside this file is a whole run. One test each."""

import os
from pathlib import Path

import pytest

from scenarios.runner import describe, find_in_order, matches, read_outcome, run_scenario

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("*/task.txt"))


def test_there_are_scenarios() -> None:
    assert FOLDERS
    assert all((folder / "expected" / "outcome.yaml").exists() for folder in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_scenario(folder: Path, tmp_path: Path) -> None:
    expected = read_outcome(folder)
    run = run_scenario(folder, tmp_path)
    story = [describe(event) for event in run.events]
    told = run.report.summary if run.report else run.error
    assert run.exit == expected.exit, told
    if expected.error is not None:
        assert expected.error in run.error
    if run.report is None:
        assert expected.error is not None, f"ended before it began: {run.error}"
    else:
        report = run.report.model_dump(mode="json")
        assert {key: report[key] for key in expected.report} == expected.report
        assert [part for part in expected.summary if part not in run.report.summary] == [], run.report.summary
        lines = (run.repo / ".headgate" / "task_reports.jsonl").read_text().splitlines()
        assert len(lines) == 1
    assert find_in_order(expected.events, story) is None, "\n".join(map(str, story))
    unwanted = [pattern for pattern in expected.no_events if any(matches(pattern, event) for event in story)]
    assert unwanted == []
    if expected.waits is not None:
        assert run.waits == expected.waits
    if expected.requests is not None:
        assert len(run.model.requests) == expected.requests
    check_tree(folder / "expected" / "tree", run.repo)
    assert [path for path in expected.absent if os.path.lexists(run.repo / path)] == []


def check_tree(expected: Path, repo: Path) -> None:
    for path in sorted(expected.rglob("*")):
        if path.is_file():
            there = repo / path.relative_to(expected)
            assert there.exists(), f"{path.relative_to(expected)} is missing"
            assert there.read_bytes() == path.read_bytes(), path.relative_to(expected)
