"""Results: the file, what they add up to, how two runs compare, and how many tries a flow has."""

import json
import subprocess
from pathlib import Path

import pytest

from headgate.bench import (
    ExerciseResult,
    RunSettings,
    compare_results,
    read_results,
    read_settings,
    render_comparison,
    render_summary,
    summarise,
)
from headgate.bench.compare import mcnemar_exact
from headgate.bench.results import ResultFile, Timing, Tokens, TryResult
from headgate.bench.settings import RunFacts, keep_settings, observe_facts
from headgate.bench.summary import wilson_interval
from headgate.bench.tries import with_tries
from headgate.config import FlowNames, builtin_flows, load_flow
from headgate.core import expand_flow
from headgate.engine import CHECK_SPECS, SPECS
from headgate.errors import ConfigError


def result(
    name: str, passed: int | None = None, problem: str = "", language: str = "python"
) -> ExerciseResult:
    failed = TryResult(reason="it failed", final_turns=("max_turns",))
    tries = (failed, failed) if passed is None else (*[failed] * (passed - 1), TryResult(reason=None))
    return ExerciseResult(
        name=name,
        language=language,
        passed=passed,
        problem=problem,
        tries=() if problem else tries,
        reason="" if problem else "done" if passed else "verify_loops",
        final_turns=() if passed else ("max_turns",),
        requests=3,
        tokens=Tokens(sent=1000, cached=200, generated=50),
        timing=Timing(started="", seconds=2.0),
    )


# The file.


def test_lines_are_kept_and_put_in_order(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "results.jsonl")
    file.load()
    for one in (result("b"), result("a", problem="no go"), result("c", 1), result("a", 2)):
        file.add(one)
    assert file.path.read_bytes().count(b"\n") == 4
    file.sort()
    assert file.path.read_bytes().count(b"\n") == 3
    assert read_results(tmp_path) == [result("a", 2), result("b"), result("c", 1)]


@pytest.mark.parametrize("broken", [b"{", b'{"name":"c"', b"\xff\xfe", b"null"])
def test_a_line_without_an_end_is_cut_off(tmp_path: Path, broken: bytes) -> None:
    file = ResultFile(tmp_path / "results.jsonl")
    file.add(result("a", 1))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + broken)
    assert read_results(file.path) == [result("a", 1)]
    again = ResultFile(file.path)
    again.load()
    assert file.path.read_bytes() == whole
    again.add(result("b"))
    assert read_results(file.path) == [result("a", 1), result("b")]


@pytest.mark.parametrize("line", [b"{}\n", b"\xff\n", b"\n", b'{"name":"x","other":1}\n'])
def test_a_line_that_is_no_result(tmp_path: Path, line: bytes) -> None:
    file = ResultFile(tmp_path / "results.jsonl")
    file.add(result("a", 1))
    with file.path.open("ab") as end:
        end.write(line)
    with pytest.raises(ConfigError, match="line 2 is not a result of headgate bench"):
        file.load()


def test_a_folder_where_the_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").mkdir()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        ResultFile(tmp_path / "results.jsonl").load()


# What they add up to.


def test_the_summary() -> None:
    found = [
        result("a", 1),
        result("b", 2),
        result("c"),
        result("d", language="go"),
        result("e", None, "no go"),
    ]
    lines = list(render_summary(summarise(found, 2)))
    assert lines[0].startswith("Passed in the first try: 25.0% (1 of 4; 95% interval 4.6% to 69.9%)")
    assert lines[1].startswith("Passed within 2 tries: 50.0% (2 of 4;")
    assert "  go        0 of 1    0.0%, 0.0%" in lines
    assert "  python    2 of 3    33.3%, 66.7%" in lines
    assert "Ended: the tests failed in every try (2), passed in try 1 (1), passed in try 2 (1)" in lines
    assert "Final turns forced: max_turns (2)" in lines
    assert "Tokens: 5,000 sent (1,000 cached), 250 generated, in 15 requests" in lines
    assert "Time: 8.0 s in all exercises together; median 2.0 s, longest 2.0 s" in lines
    assert lines[-2:] == [
        "Not judged, because of the environment or of the exercise itself: 1."
        " The same command runs them again.",
        "  e: no go",
    ]


def test_the_summary_of_nothing() -> None:
    assert not any("Passed" in line for line in render_summary(summarise([result("a", problem="no go")])))


def test_formulas() -> None:
    assert wilson_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(5, 5) == 1.0
    assert mcnemar_exact(0, 6) == mcnemar_exact(6, 0) == 0.03125
    assert mcnemar_exact(1, 9) == pytest.approx(0.021484, abs=1e-6)
    assert 0.0 <= mcnemar_exact(900, 1100) < 0.05


# Two runs.


def compared(first: str, second: str) -> list[str]:
    """What is said of two runs: a letter for each exercise, `+` solved, `-` not, `?` not judged."""
    runs = [
        [
            result(f"e{number:03}", 1 if how == "+" else None, "no go" if how == "?" else "")
            for number, how in enumerate(run)
        ]
        for run in (first, second)
    ]
    return list(render_comparison(compare_results(*runs), "A", "B"))


def test_comparing() -> None:
    clear = compared("++++++++--", "++--------")
    assert clear[0] == "10 exercises in both: A solved 8, B solved 2."
    assert clear[1] == "Solved by both: 2. By neither: 2."
    assert clear[2] == "Only by A: 6 (e002, e003, e004, e005, e006, e007)."
    assert clear[3] == "Only by B: 0."
    assert clear[-1].endswith("gives p = 0.0312: A is better, and chance is an unlikely reason.")
    assert compared("++++---", "---++++")[-1].endswith("p = 1: the difference may be chance.")
    assert "B is better" in compared("-" * 9, "+" * 9)[-1]
    few = compared("+++", "---")[-1]
    assert few.endswith("gives p = 0.25. These are too few to tell: fewer than 6 are never significant.")
    assert compared("+-", "+-")[-1] == "Both solved the same exercises."
    assert "Left out, because only one run has judged them: 1." in compared("+?", "++")
    assert compared("", "") == ["The two runs have no exercise in common that both have judged."]
    assert ", and 10 more)." in compared("+" * 50, "-" * 50)[2]


# Where they were made.


_TEXTS = {"exercises": "set", "model": "openai/m", "base_url": "", "flow": "bench"}
OLD = RunSettings(**_TEXTS, tries=2, timeout=None, commands={}, flow_text="", config_text="")


def test_settings_without_facts_still_count(tmp_path: Path) -> None:
    """Those of an older version: they can be read, and gone on from."""
    written = OLD.model_dump(mode="json", exclude={"runs"})
    (tmp_path / "settings.json").write_text(json.dumps(written))
    assert read_settings(tmp_path) == OLD
    facts = RunFacts(started="2026-01-02T03:04:05+00:00", version="9", machine="one")
    keep_settings(tmp_path, OLD, facts)
    keep_settings(tmp_path, OLD, facts)
    assert read_settings(tmp_path) == OLD.model_copy(update={"runs": (facts, facts)})


def test_the_commit_of_exercises(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        own = ["-c", "user.name=n", "-c", "user.email=e@x"]
        done = subprocess.run(
            ["git", "-C", tmp_path, *own, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "task.txt").write_text("one\n")
    git("init", "-q")
    assert observe_facts(tmp_path / "set", 0).exercises_commit == ""
    git("add", "set")
    git("commit", "-qm", "set")
    commit = git("rev-parse", "--short=12", "HEAD")
    git("commit", "-qm", "other", "--allow-empty")
    assert observe_facts(tmp_path / "set", 0).exercises_commit == commit
    (tmp_path / "set" / "task.txt").write_text("two\n")
    found = observe_facts(tmp_path / "set", 0)
    assert (found.exercises_commit, found.started) == (f"{commit} with changes", "1970-01-01T00:00:00+00:00")


# How often a flow runs the tests.


@pytest.mark.parametrize("name", sorted(set(builtin_flows()) - {"ask", "planned"}))
def test_every_flow_has_as_many_rounds_as_tries(name: str, tmp_path: Path) -> None:
    flow = load_flow(name, tmp_path, FlowNames(SPECS, CHECK_SPECS))
    tree = expand_flow(with_tries(flow, 5, CHECK_SPECS), SPECS, CHECK_SPECS)
    (group,) = [stage for stage in tree.stages if any(leaf.kind == "verify" for leaf in stage.stages)]
    assert group.repeat is not None
    expected = {"max": 5, "replan_every": 0, "no_progress": 0, "idle_attempts": 0}
    assert group.repeat.model_dump(exclude={"until"}) == expected
    assert [leaf.id for leaf in group.leaves()][-1] == group.repeat.until.removesuffix(".passed")


def test_a_tree_of_stages_has_as_many_rounds(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "stages:\n  - id: rounds\n    repeat: {until: check.passed, no_progress: 2, idle_attempts: 1}\n"
        "    stages:\n      - {id: write}\n      - {id: check, kind: verify}\n"
    )
    flow = with_tries(load_flow("own.yaml", tmp_path), 3, CHECK_SPECS)
    repeat = flow.stages[0].repeat
    assert repeat is not None
    assert (repeat.max, repeat.no_progress, repeat.idle_attempts) == (3, 0, 0)


@pytest.mark.parametrize(
    ("stages", "where"),
    [
        ("[{id: a}]", "nowhere"),
        ("[{id: a}, {id: b, kind: verify}, {id: c, kind: verify}]", "in several places"),
        ("[{id: a, kind: planner}, {id: b, kind: verify}]", "in several places"),
    ],
)
def test_a_flow_whose_tries_cannot_be_counted(tmp_path: Path, stages: str, where: str) -> None:
    (tmp_path / "own.yaml").write_text(f"stages: {stages}\n")
    with pytest.raises(ConfigError, match=f"runs the tests {where}, so"):
        with_tries(load_flow("own.yaml", tmp_path), 3, CHECK_SPECS)
