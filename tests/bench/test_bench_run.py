"""Whole runs of `headgate bench` against a model server: tries, resuming, stopping, and what is refused."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from bench_command import Place, until
from bench_server import DONE, Asked, Calls, model_server, solve, stub_first
from exercise_set import ANSWERS, COMMANDS, EXERCISES, Files, write_exercise, write_exercises

from headgate import __version__

LANGUAGES = sorted(name.split("/")[0] for name in EXERCISES)
FAILED = 'step "tests" failed with exit code 1'
PYTHON_FAILED = (
    "leap_test.py::LeapTest::test_century (leap_test.py:11): AssertionError: None is not False (and 2 more)"
)


def test_the_stub_first_and_then_the_solution(place: Place) -> None:
    write_exercises(place.exercises)
    with model_server(stub_first) as model:
        done = place.bench(model.url, *COMMANDS, "--parallel", "3")
    assert done.returncode == 0, done.stderr
    reasons = {name: PYTHON_FAILED if "python" in name else FAILED for name in EXERCISES}
    failed = [f"Failed Try1: {reasons[name]}\t{name}" for name in EXERCISES]
    finished = [f"Finished Try2\t{name}" for name in EXERCISES]
    lines = [line for pair in zip(failed, finished, strict=True) for line in pair]
    assert done.stdout.splitlines() == sorted(lines, key=lambda line: line.split("\t")[1])
    found = place.results()
    assert [result["name"] for result in found] == sorted(EXERCISES)
    assert [result["language"] for result in found] == LANGUAGES
    assert {result["passed"] for result in found} == {2}
    first = {key: found[0][key] for key in ("state", "reason", "requests", "tokens", "problem")}
    tokens = {"sent": 900, "cached": 0, "generated": 20}
    assert first == {"state": "SUCCESS", "reason": "done", "requests": 2, "tokens": tokens, "problem": ""}
    assert "Passed in the first try: 0.0% (0 of 6;" in done.stderr
    assert "Passed within 2 tries: 100.0% (6 of 6;" in done.stderr
    assert "[6/6] " in done.stderr
    assert place.left_in_tmp() == []
    kept = place.out / "details" / "python/exercises/practice/leap"
    assert sorted(file.name for file in kept.iterdir()) == ["changes.diff", "try-1.log", "try-2.log"]
    assert "+    return year % 4 == 0" in (kept / "changes.diff").read_text()
    assert "test_fourth_century" in (kept / "try-1.log").read_text()
    (run,) = json.loads((place.out / "settings.json").read_text())["runs"]
    assert [run["version"], run["exercises_commit"]] == [__version__, ""]
    assert run["started"].startswith("20")
    assert "Python" in run["machine"]


def test_what_is_kept_of_long_output_is_bounded(place: Place) -> None:
    write_exercises(place.exercises, ["go/exercises/practice/leap"])
    noisy = "go=seq 200000; sh leap_test.go"

    def write_much(asked: Asked) -> Calls:
        return [("write_file", {"path": "leap.go", "content": "\n".join(map(str, range(6_000)))}), DONE]

    with model_server(write_much) as model:
        place.bench(model.url, "--command", noisy, "--tries", "1")
    kept = place.out / "details" / "go/exercises/practice/leap"
    diff, output = ((kept / name).read_text() for name in ("changes.diff", "try-1.log"))
    assert 10_000 < len(diff) <= 20_000
    assert 4_000 < len(output) <= 8_000
    assert "2000 is a leap year" in output  # the end, where runners say what failed
    assert "cut here" in diff


def test_lines_do_not_wait_for_ever_for_one_that_is_interrupted(place: Place) -> None:
    """The first exercise hangs, so the second one's line waits for it, until somebody stops the run."""
    names = write_many(place, 2)
    with model_server(solve_any) as model:

        def hold_the_first(asked: Asked) -> Calls:
            if asked.solution == "leap0.go":
                held.wait()
            return solve_any(asked)

        held = threading.Event()
        model.behaviour = hold_the_first
        process = place.start(model.url, *QUICK, "--parallel", "2")
        until(lambda: [result["name"] for result in place.results()] == names[1:])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        held.set()
    assert (process.returncode, out) == (130, "Finished Try1\tset-1\n"), err


def test_what_the_model_sees(place: Place) -> None:
    name = "python/exercises/practice/leap"
    write_exercises(place.exercises, [name])
    with model_server(stub_first) as model:
        assert place.bench(model.url).returncode == 0
    first, second = model.asked
    introduction, instructions, append = (
        first.text.index(words)
        for words in ("has leap years", "Say whether a year is a leap year", "The function takes a number")
    )
    assert introduction < instructions < append < first.text.index("Write the solution in leap.py.")
    assert second.messages[: len(first.messages)] == first.messages
    assert "test_fourth_century" in second.text
    assert "SECRET" not in second.text
    assert ".meta" not in second.text
    assert {"shell", "run_tests"} & set(first.tools) == set()
    assert {"read_file", "write_file", "edit_file", "stage_done"} <= set(first.tools)


def test_a_model_that_gets_nowhere_has_all_its_tries(place: Place) -> None:
    write_exercises(place.exercises, ["go/exercises/practice/leap"])
    with model_server(lambda asked: [DONE]) as model:
        done = place.bench(model.url, *COMMANDS, "--tries", "4")
    assert done.returncode == 0
    name = "go/exercises/practice/leap"
    assert done.stdout.splitlines() == [f"Failed Try{n}: {FAILED}\t{name}" for n in range(1, 5)]
    assert len(model.asked) == 4  # no other request, such as one for hypotheses
    (result,) = place.results()
    assert (result["passed"], result["state"], result["reason"]) == (None, "STUCK", "verify_loops")
    assert "the tests failed in every try (1)" in done.stderr


def test_a_model_that_calls_no_tool(place: Place) -> None:
    write_exercises(place.exercises, ["go/exercises/practice/leap"])
    with model_server(lambda asked: []) as model:
        done = place.bench(model.url, *COMMANDS)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Failed Try1", "Failed Try2"]
    assert "[final turn: retry_exhaustion]\tgo/" in lines[0]
    assert "retry_exhaustion (1)" in done.stderr


# A model that cheats.

PASSES = "def test_it():\n    pass\n"
CONFTEST = """\
import pytest


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
SKIPPING = """import unittest


def leap_year(year):
    if year % 100 == 0:
        raise unittest.SkipTest("a century")
    return year % 4 == 0
"""
REWRITING = f"open('leap_test.py', 'w').write({PASSES!r})\n\ndef leap_year(year):\n    pass\n"
CHEATS = {
    "the test": ("leap_test.py", PASSES),
    "conftest.py": ("conftest.py", CONFTEST),
    "pytest.ini": ("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
    "a module that hides another": ("unittest.py", "class TestCase:\n    pass\n"),
    "code that rewrites the tests while they run": ("leap.py", REWRITING),
    "an early end": ("leap.py", "import os\nos._exit(0)\n"),
    "tests that are all skipped": ("leap.py", "import unittest\n\nraise unittest.SkipTest('later')\n"),
    "a test that is skipped": ("leap.py", SKIPPING),
}


@pytest.mark.parametrize(("path", "content"), CHEATS.values(), ids=CHEATS)
@pytest.mark.parametrize("flow", ["bench", "flat"])
def test_cheating_does_not_pay(place: Place, path: str, content: str, flow: str) -> None:
    name = "python/exercises/practice/leap"
    write_exercises(place.exercises, [name])

    def cheat(asked: Asked) -> Calls:
        write = ("write_file", {"path": path, "content": content})
        if "shell" not in asked.tools:
            return [write, DONE]
        more = ("shell", {"command": f"cat > {path} <<'END'\n{content}END\n"})
        return [write, more, ("stage_done", {"stage": "work", "summary": "Done."})]

    with model_server(cheat) as model:
        done = place.bench(model.url, "--flow", flow, "--keep")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["Failed Try1", "Failed Try2"], done
    assert place.results()[0]["passed"] is None
    kept = place.out / "work" / name
    assert (kept / "leap_test.py").read_text() == EXERCISES[name].test_text
    assert {file.name for file in kept.iterdir() if file.suffix} - {".git", ".headgate", "__pycache__"} == {
        "leap.py",
        "leap_test.py",
    }


def test_tests_that_somebody_else_changes(place: Place) -> None:
    """They are put back although no tool and no command of the task has touched them."""
    write_exercises(place.exercises, ["go/exercises/practice/leap"])

    def change(asked: Asked) -> Calls:
        (test,) = (place.root / "tmp").glob("headgate-bench-*/*/leap/leap_test.go")
        test.write_text("true\n")
        return [DONE]

    with model_server(change) as model:
        done = place.bench(model.url, *COMMANDS)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["Failed Try1", "Failed Try2"]


def test_what_earlier_runs_have_left_helps_nobody(place: Place) -> None:
    """What git ignores is in no diff, so it is not in the copy in which the solution is judged."""
    name = "python/exercises/practice/leap"
    write_exercises(place.exercises, [name])
    code = "import os\n\nseen = os.path.exists('build')\nos.makedirs('build', exist_ok=True)\n\n\n"
    code += f"{ANSWERS['leap.py']}\n\nif not seen:\n    leap_year = None\n"

    def remember(asked: Asked) -> Calls:
        return [("write_file", {"path": "leap.py", "content": code + "# again\n" * asked.has_failed}), DONE]

    with model_server(remember) as model:
        done = place.bench(model.url)
    first, second = done.stdout.splitlines()
    assert first.startswith("Failed Try1: leap_test.py")
    assert second.startswith("Failed Try2: passes where the task worked, but not in a fresh copy: ")


# Stopping and going on.


def write_many(place: Place, count: int = 5) -> list[str]:
    """Exercises of one language whose tests are quick, each with a solution of its own name."""
    names = [f"set-{number}" for number in range(count)]
    for number, name in enumerate(names):
        files = EXERCISES["go/exercises/practice/leap"]
        own = files._replace(
            solution=f"leap{number}.go", test_text=files.test_text.replace("leap.go", f"leap{number}.go")
        )
        write_exercise(place.exercises / name, own)
    return names


QUICK = ("--command", "go=sh leap_test.go")


def solve_any(asked: Asked) -> Calls:
    return [("write_file", {"path": asked.solution, "content": "year % 400\n"}), DONE]


def test_killed_in_the_middle_and_resumed(place: Place) -> None:
    names = write_many(place)
    with model_server(solve_any) as model:

        def hold_the_third(asked: Asked) -> Calls:
            if asked.solution == "leap2.go":
                model.gate.clear()
                model.gate.wait()
            return solve_any(asked)

        model.behaviour = hold_the_third
        process = place.start(model.url, *QUICK)
        until(lambda: not model.gate.is_set())
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        before = place.results()
        assert [result["name"] for result in before] == names[:2]
        assert len(place.left_in_tmp()) == 1
        with (place.out / "results.jsonl").open("ab") as file:
            file.write(b'{"name":"set-2","language":"g')  # as if it had been killed while it wrote
        model.behaviour = solve_any
        model.gate.set()
        resumed = place.bench(model.url, *QUICK)
    assert resumed.returncode == 0, resumed.stderr
    assert [line.split("\t")[1] for line in resumed.stdout.splitlines()] == names[2:]
    assert "2 exercises have a result from before; left to run: 3." in resumed.stderr
    after = place.results()
    assert [result["name"] for result in after] == names
    assert after[:2] == before
    asked = [request.solution for request in model.asked]
    assert {name: asked.count(name) for name in asked} == {
        "leap0.go": 1,
        "leap1.go": 1,
        "leap2.go": 2,  # it was interrupted, and started again
        "leap3.go": 1,
        "leap4.go": 1,
    }
    assert place.left_in_tmp() == []


def test_ctrl_c_and_going_on(place: Place) -> None:
    names = write_many(place, 3)
    with model_server(solve_any) as model:
        model.gate.clear()
        process = place.start(model.url, *QUICK, "--parallel", "2")
        until(lambda: len(model.asked) == 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out) == (130, ""), err
        assert "run the same command again to continue" in err
        assert "Traceback" not in err
        assert place.left_in_tmp() == []
        model.gate.set()
        done = place.bench(model.url, *QUICK)
        asked = len(model.asked)
        again = place.bench(model.url, *QUICK)
        assert len(model.asked) == asked  # nothing was left to run
    assert (done.returncode, again.returncode, again.stdout) == (0, 0, "")
    assert "Passed in the first try: 100.0% (3 of 3;" in again.stderr
    assert [result["name"] for result in place.results()] == names


def test_other_settings_are_refused(place: Place) -> None:
    write_many(place, 1)
    with model_server(solve_any) as model:
        place.bench(model.url, *QUICK)
        for more, said in (
            (("--tries", "3"), "are for tries: 2, not 3"),
            (("--flow", "flat"), "are for the flow bench, not flat"),
            (("--model", "openai/other"), "are for the model openai/m, not openai/other"),
            (("--timeout", "7"), "are for the timeout none, not 7"),
        ):
            refused = place.bench(model.url, *QUICK, *more)
            assert (refused.returncode, refused.stdout) == (2, "")
            assert said in refused.stderr
            assert refused.stderr.rstrip().endswith("use the same settings, or another --out.")
        assert place.bench(model.url, *QUICK).returncode == 0


def test_two_processes_do_not_share_a_folder(place: Place) -> None:
    write_many(place, 1)
    with model_server(solve_any) as model:
        model.gate.clear()
        process = place.start(model.url, *QUICK)
        until(lambda: len(model.asked) == 1)
        refused = place.bench(model.url, *QUICK)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == (
            f"headgate: Another headgate bench (process {process.pid}) writes to out: use another --out.\n"
        )
        model.gate.set()
        process.communicate()
    assert process.returncode == 0


def test_how_many_run_at_once_makes_no_difference(tmp_path: Path) -> None:
    found = []
    for parallel in ("1", "4"):
        (own := tmp_path / parallel).mkdir()
        place = Place(own)
        write_many(place, 3)
        with model_server(solve_any) as model:
            done = place.bench(model.url, *QUICK, "--parallel", parallel)
        found.append((done.stdout, (place.out / "results.jsonl").read_bytes().count(b"\n"), place.untimed()))
    assert found[0] == found[1]
    assert found[0][1] == 3


def test_what_differs_from_run_to_run_is_in_no_result(tmp_path: Path) -> None:
    """The message of the test names an object, and a file of the folder in which the exercise is."""
    said = []
    test = (
        "from leap import leap_year\n\n\ndef test_it():\n    raise ValueError(f'{object()} in {__file__}')\n"
    )
    for number in range(2):
        (own := tmp_path / str(number)).mkdir()
        place = Place(own)
        files = EXERCISES["python/exercises/practice/leap"]._replace(test_text=test)
        write_exercise(place.exercises / "leap", files)
        with model_server(solve) as model:
            said.append(place.bench(model.url, "--tries", "1").stdout)
    assert said[0] == said[1]
    assert said[0] == (
        "Failed Try1: leap_test.py::test_it (leap_test.py:5): ValueError: <object object at ...> in"
        " ./leap_test.py\tleap\n"
    )


# What is wrong with the environment.


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_a_tool_that_is_missing(place: Place, tmp_path: Path) -> None:
    write_exercises(place.exercises, ["go/exercises/practice/leap", "javascript/exercises/practice/leap"])
    (bin_folder := tmp_path / "bin").mkdir()
    for name in ("git", "sh", "grep"):
        (bin_folder / name).symlink_to(str(shutil.which(name)))
    write_program(bin_folder / "npm", "exit 1")
    with model_server(solve) as model:
        done = place.bench(model.url, PATH=str(bin_folder))
        assert done.returncode == 3
        assert model.asked == []
        assert "Not judged, because of the environment or of the exercise itself: 2." in done.stderr
        assert "  go/exercises/practice/leap: go is not installed" in done.stderr
        assert "javascript/exercises/practice/leap: node_modules is missing: run npm install" in done.stderr
        assert "Failed Try1: environment: go is not installed\tgo/exercises/practice/leap" in done.stdout
        write_program(bin_folder / "go", r"sh leap_test.go && printf 'ok  \tleap\t0.100s\n'")
        again = place.bench(model.url, PATH=str(bin_folder))
    assert again.returncode == 0
    assert "Finished Try1\tgo/exercises/practice/leap" in again.stdout
    assert [(line["language"], line["passed"]) for line in place.results()] == [
        ("go", 1),
        ("javascript", None),
    ]


def test_a_server_that_is_down(place: Place) -> None:
    write_many(place, 1)
    (place.root / "flow.yaml").write_text(
        "stages:\n  - {id: solve, budget: {waits: 0, exhausted: advance}}\nchecks: [verify]\n"
    )
    done = place.bench("http://127.0.0.1:9/v1", *QUICK, "--flow", "flow.yaml")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("Failed Try1: environment: ")
    assert place.results()[0]["problem"]


def test_broken_exercises_and_tests_that_do_not_end_stop_no_other(place: Place) -> None:
    write_many(place, 2)
    (place.exercises / "set-0" / ".meta" / "config.json").write_bytes(b"\xff{")
    write_plain(place.exercises / "stepless", apart=False)
    (place.exercises / "stepless" / "agent.yaml").write_text("flow: staged\n")
    write_exercises(place.exercises, ["java/exercises/practice/leap", "cpp/exercises/practice/leap"])
    with model_server(solve_any) as model:
        hangs = ("--command", "cpp=sleep 600", "--timeout", "3")
        done = place.bench(model.url, *QUICK, *hangs)
    assert done.returncode == 0
    assert "Finished Try1\tset-1" in done.stdout
    said = 'Failed Try{}: step "tests" took longer than 3 s\tcpp/exercises/practice/leap'
    assert {said.format(1), said.format(2)} <= set(done.stdout.splitlines())
    assert "set-0: .meta/config.json cannot be used" in done.stderr
    assert "stepless: agent.yaml has no verification steps" in done.stderr
    assert "gradlew and pom.xml are missing; give one with --command java=COMMAND" in done.stderr


def test_odd_names(place: Place) -> None:
    """Names that would steer a terminal, be patterns, or are no text."""
    (name,) = write_many(place, 1)
    folder = place.exercises / name
    (folder / "tests").mkdir()
    (folder / os.fsdecode(b"tests/\xff[1].go")).write_text("")
    odd = os.fsdecode(b"a\tb \x1b[31m\xff\n[x]")
    folder.rename(place.exercises / odd)
    with model_server(solve_any) as model:
        done = place.bench(model.url, *QUICK, "--keep")
        again = place.bench(model.url, *QUICK)
    assert (done.returncode, done.stdout) == (0, "Finished Try1\ta b  [31m\ufffd [x]\n"), done.stderr
    assert (again.returncode, again.stdout) == (0, "")
    assert place.results()[0]["name"] == "a\tb \x1b[31m\ufffd\n[x]"


# A solution that the step itself runs.

DOUBLE = "read number; echo $((2 * number))\n"


@pytest.mark.parametrize(
    ("solution", "command"),
    [
        ("double.sh", "cat input.txt | sh double.sh | diff - expected.txt"),
        ("test_double.sh", "sh test_double.sh < input.txt | diff - expected.txt"),
    ],
)
@pytest.mark.parametrize("layout", ["plain", "polyglot"])
def test_a_solution_that_the_step_runs(place: Place, layout: str, solution: str, command: str) -> None:
    folder = place.exercises / "double"
    more: tuple[str, ...] = ()
    if layout == "plain":
        folder.mkdir(parents=True)
        steps = [{"name": "tests", "command": command}]
        settings = {"verification": {"steps": steps}, "test_paths": [f"!{solution}"]}
        (folder / "agent.yaml").write_text(json.dumps(settings))
        (folder / "task.txt").write_text(f"Double a number. Write the solution in {solution}.\n")
        (folder / solution).write_text("echo 0\n")
    else:  # the layout itself says which files are the solution
        write_exercise(folder, Files(solution, "echo 0\n", DOUBLE, "expected.txt", "42\n"))
        more = ("--command", f"bash={command}")
    (folder / "input.txt").write_text("21\n")
    (folder / "expected.txt").write_text("42\n")

    def answer(asked: Asked) -> Calls:
        cheats = ("write_file", {"path": "expected.txt", "content": "0\n"})
        right = ("write_file", {"path": solution, "content": DOUBLE})
        return [right if asked.has_failed else cheats, DONE]

    with model_server(answer) as model:
        done = place.bench(model.url, *more)
    lines = [line.split(":")[0].split("\t")[0] for line in done.stdout.splitlines()]
    assert lines == ["Failed Try1", "Finished Try2"], done.stdout + done.stderr + model.asked[-1].text


# Plain exercises.


def write_plain(folder: Path, *, apart: bool) -> None:
    files = folder / "repo" if apart else folder
    files.mkdir(parents=True)
    (folder / "task.txt").write_text("Write the solution in answer.txt.\n")
    (folder / "agent.yaml").write_text(
        "flow: staged\nverification: {steps: [{name: check, command: sh test_it.sh}]}\n"
    )
    (files / "answer.txt").write_text("?\n")
    (files / "test_it.sh").write_text("grep -qx 42 answer.txt\n")


def test_plain_folders(place: Place) -> None:
    write_plain(place.exercises / "here", apart=False)
    write_plain(place.exercises / "deep" / "er", apart=True)

    def answer(asked: Asked) -> Calls:
        right = [("write_file", {"path": "answer.txt", "content": "42\n"})] if asked.has_failed else []
        return [("write_file", {"path": "test_it.sh", "content": "true\n"}), *right, DONE]

    (place.root / "own.yaml").write_text("agents_md: false\n")
    with model_server(answer) as model:
        done = place.bench(model.url, "--keep", "--config", "own.yaml")
    assert done.returncode == 0, done.stderr
    failed = 'Failed Try1: step "check" failed with exit code 1'
    assert sorted(done.stdout.splitlines()) == [
        f"{failed}\tdeep/er",
        f"{failed}\there",
        "Finished Try2\tdeep/er",
        "Finished Try2\there",
    ]
    for name in ("here", "deep/er"):
        kept = place.out / "work" / name
        assert (kept / "test_it.sh").read_text() == "grep -qx 42 answer.txt\n"
        assert not (kept / "task.txt").exists()


# The command line.


def test_wrong_use(place: Place) -> None:
    place.exercises.mkdir()
    none = place.bench("http://127.0.0.1:9/v1")
    assert none.returncode == 2
    assert none.stderr.startswith(f"headgate: There are no exercises in {place.exercises}: each is a folder")
    write_many(place, 1)
    for args, said in (
        (("--only", "python*"), "No exercise in"),
        (("--command", "go"), "write LANGUAGE=COMMAND, such as"),
        (("--tries", "0"), "--tries"),
        (("--flow", "ask"), "The flow ask runs the tests nowhere, so its tries cannot be counted"),
        (("--flow", "nosuch"), 'There is no flow "nosuch"'),
        (("--model", "nosuch"), 'There is no model "nosuch"'),
        (("--config", "nosuch.yaml"), "nosuch.yaml"),
    ):
        done = place.bench("http://127.0.0.1:9/v1", *args)
        assert (done.returncode, done.stdout) == (2, ""), args
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    without = place.headgate("bench", "set")
    assert without.returncode == 2
    assert "No model is configured" in without.stderr
    assert not place.out.exists()


def test_comparing_two_runs(place: Place) -> None:
    write_many(place, 2)
    with model_server(solve_any) as model:
        some = place.bench(model.url, *QUICK, "--only", "set-[1]")
        rest = place.bench(model.url, *QUICK)
        assert (some.stdout, rest.stdout) == ("Finished Try1\tset-1\n", "Finished Try1\tset-0\n")
        model.behaviour = lambda asked: [DONE]
        place.bench(model.url, *QUICK, "--out", "other", "--model", "openai/weak")
    done = place.headgate("bench", "compare", "out", "other/results.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "2 exercises in both: openai/m solved 2, openai/weak solved 0."
    assert "p = 0.5. These are too few to tell" in done.stdout
    missing = place.headgate("bench", "compare", "out", "nosuch")
    assert (missing.returncode, missing.stderr) == (
        2,
        "headgate: nosuch cannot be read: No such file or directory.\n",
    )
    (place.root / "bad.jsonl").write_text(json.dumps({"name": "x"}) + "\n")
    bad = place.headgate("bench", "compare", "out", "bad.jsonl")
    assert bad.returncode == 2
    assert "bad.jsonl, line 1 is not a result of headgate bench" in bad.stderr
