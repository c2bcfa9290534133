"""Which runs are removed, on a real folder."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.checks import new_run_id, prune_runs

NOW = 1_800_000_000.0
DAY = 86400.0


def make_run(runs: Path, run_id: str) -> str:
    folder = runs / run_id
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "combined.log").write_text("$ true\n")
    return run_id


def aged(days: float) -> str:
    return new_run_id(NOW - days * DAY)


def test_by_default_twenty_stay_for_two_weeks_beside_what_is_kept(tmp_path: Path) -> None:
    kept = [make_run(tmp_path, aged(100 + number)) for number in range(3)]
    ids = [make_run(tmp_path, aged(number / 10)) for number in range(23)]
    assert prune_runs(tmp_path, kept, NOW) == [ids[22], ids[21], ids[20]]
    assert {path.name for path in tmp_path.iterdir()} == {*kept, *ids[:20]}
    young, old = make_run(tmp_path, aged(13.9)), make_run(tmp_path, aged(14.1))
    os.utime(tmp_path / young, (0, 0))  # the id counts, not the file's own dates
    assert prune_runs(tmp_path, kept, NOW, max_runs=30) == [old]


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    make_run(elsewhere, "inner")
    runs = tmp_path / "runs"
    for name in (
        "notes",
        "run_",
        "run_20000101_000000_abcde",
        "run_20000101_000000_ABCDEF",
        "run_20001301_000000_abcdef",
        "xrun_20000101_000000_abcdef",
        "run_20000101_000000_abcdef.bak",
        "run_٢٠٠٠٠١٠١_000000_abcdef",
    ):
        make_run(runs, name)
    (runs / "run_20000101_000000_aaaaaa").write_text("a file")
    (runs / "run_20000101_000000_bbbbbb").symlink_to(elsewhere, target_is_directory=True)
    before = sorted(path.name for path in runs.iterdir())
    assert prune_runs(runs, (), NOW) == []
    assert sorted(path.name for path in runs.iterdir()) == before
    assert (elsewhere / "inner" / "combined.log").exists()


def test_links_inside_a_run_are_removed_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    make_run(precious, "inner")
    runs = tmp_path / "runs"
    old = make_run(runs, aged(20))
    (runs / old / "link").symlink_to(precious, target_is_directory=True)
    (runs / old / "manifest.json").unlink()
    (runs / old / "manifest.json").symlink_to(precious / "inner" / "manifest.json")
    assert prune_runs(runs, (), NOW) == [old]
    assert (precious / "inner" / "manifest.json").exists()


@pytest.mark.parametrize("kind", ["missing", "file", "link"])
def test_a_folder_that_is_none(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    old = make_run(target, aged(20))
    runs = tmp_path / "runs"
    if kind == "file":
        runs.write_text("")
    elif kind == "link":
        runs.symlink_to(target, target_is_directory=True)
    assert prune_runs(runs, (), NOW) == []
    assert (target / old).exists()


@given(
    ages=st.lists(st.integers(-2, 40), max_size=12),
    kept=st.sets(st.integers(0, 11)),
    others=st.sets(st.sampled_from(["notes", "run_x", "run_20000101_000000_zzzzzz"])),
    max_runs=st.integers(0, 6),
    max_age=st.integers(0, 30),
)
def test_no_more_and_no_less_than_needed(
    ages: list[int], kept: set[int], others: set[str], max_runs: int, max_age: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        ids = {make_run(runs, f"{aged(age)[:-6]}{number:06x}"): age for number, age in enumerate(ages)}
        keep = {run_id for number, run_id in enumerate(ids) if number in kept}
        for other in others:
            make_run(runs, other)
        removed = prune_runs(runs, keep, NOW, max_runs, max_age)
        left = {path.name for path in runs.iterdir()}
    assert left == {*ids, *others} - set(removed)
    assert set(removed) <= set(ids) - keep
    assert len(removed) == len(set(removed))
    staying = sorted(set(ids) - keep - set(removed))
    assert len(staying) <= max_runs
    assert all(ids[run_id] <= max_age for run_id in staying)
    for run_id in removed:  # each for a reason: its age, or that the newer ones fill all places
        newer = [other for other in staying if other > run_id]
        assert ids[run_id] > max_age or len(newer) == max_runs
