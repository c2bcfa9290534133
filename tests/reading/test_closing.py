"""When an exit code of 0 is believed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.reading import explain_doubtful_success

PYTEST = "..  [100%]\n2 passed in 0.01s\n"
UNITTEST = "-----\nRan 1 test in 0.000s\n\nOK\n"
JEST = "PASS a.test.js\nTests:       1 passed, 1 total\nTime: 1 s\n"
GO = "ok  \texample.com/a\t0.003s\n?   \texample.com/b\t[no test files]\n"
CARGO = "\nrunning 1 test\n.\ntest result: ok. 1 passed; 0 failed\n"
MISSING = "ended with exit code 0, but {} printed no result: something ended the run early"
FAILED = "ended with exit code 0, but {}'s own result says that tests failed"


@pytest.mark.parametrize(
    ("runner", "command", "output"),
    [
        ("pytest", "pytest", PYTEST),
        ("pytest", "python -m pytest -q tests", PYTEST),
        ("pytest", "cd a && .venv/bin/python3.11 -W error -B -m pytest -q 2>&1 | tee log", PYTEST),
        ("pytest", "uv run pytest -x", "=== 1 passed, 2 warnings in 1.00s (0:00:01) ===\n"),
        ("pytest", "coverage run -m pytest", "=== 1 passed, 3 subtests passed in 1.00s ===\n"),
        ("pytest", "coverage run --source a -m pytest", PYTEST),
        ("pytest", "pytest -q 2>/dev/null", "3 skipped in 0.01s\n"),
        ("pytest", "env CI=1 timeout 60 py.test", "\x1b[32m\x1b[1m1 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\n"),
        ("pytest", "pytest", "Results (0.05s):\n       1 passed\n"),
        ("pytest", "pytest -qq", "....  [ 50%]\n..s.  [100%]\n"),
        ("pytest", "set -e; pytest; echo done", PYTEST + "done\n"),
        ("pytest", "cd a\npytest\n", PYTEST),
        ("pytest", "cd forms && pytest $(cat list)", PYTEST),
        ("unittest", "python3 -m unittest -q", UNITTEST),
        ("unittest", "python -X dev -m unittest discover -s tests", UNITTEST.replace("OK", "OK (skipped=1)")),
        ("jest", "node_modules/.bin/jest", JEST),
        ("jest", "npx jest --ci", JEST),
        ("jest", "yarn jest", "No tests found, exiting with code 0\n"),
        ("go test", "go test ./...", GO),
        ("go test", "go test -json ./...", '{"Time":"x","Action":"pass","Package":"a"}\n'),
        ("cargo test", "cargo test -q", CARGO),
    ],
)
def test_the_runner_s_own_result(runner: str, command: str, output: str) -> None:
    assert explain_doubtful_success(command, output) == ""
    assert explain_doubtful_success(command, "OK\n") == MISSING.format(runner)


@pytest.mark.parametrize(
    ("runner", "command", "output"),
    [
        ("pytest", "pytest", "=== 1 failed, 2 passed in 0.01s ===\n"),
        ("pytest", "pytest -qq", ".F  [100%]\n"),
        ("unittest", "python -m unittest", UNITTEST.replace("OK", "FAILED (failures=1)")),
        ("jest", "jest", "Tests:       1 failed, 1 passed, 2 total\n"),
    ],
)
def test_a_result_that_the_exit_code_denies(runner: str, command: str, output: str) -> None:
    assert explain_doubtful_success(command, output) == FAILED.format(runner)


def test_every_call_has_a_result_of_its_own() -> None:
    assert explain_doubtful_success("pytest a && pytest b", PYTEST) == MISSING.format("pytest")
    assert explain_doubtful_success("pytest a && pytest b", PYTEST * 2) == ""
    assert explain_doubtful_success("pytest a && jest", PYTEST) == MISSING.format("jest")
    assert explain_doubtful_success("cargo test", f"running 2 tests\n{CARGO}") == MISSING.format("cargo test")


UNTOLD = """
sh check.sh
make test
npm test
npm run jest
tox
python main.py -m pytest
ruff check
pytest > log
pytest &> log
python -m unittest 2> log
./unittest
jest 2>/dev/null
pytest | grep -v x
pytest || true
if test -d a; then pytest; fi
pytest; true
exec > log; pytest
echo pytest
pytest --collect-only
pytest --version
pytest -p no:terminal
python -m pytest -p no:terminal
jest --reporters=mine
go test -c
go vet
cargo test --no-run
cargo build
npx -y jest
"""


@pytest.mark.parametrize("command", UNTOLD.split("\n"))
def test_nothing_is_missed_where_none_can_tell(command: str) -> None:
    assert explain_doubtful_success(command, "") == ""


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        ("pass", ""),
        ("import os; print('1 passed in 0.01s'); os._exit(0)", MISSING.format("pytest")),
        ("import atexit, os; atexit.register(os._exit, 0); assert False", FAILED.format("pytest")),
    ],
)
def test_a_real_runner(code: str, doubt: str, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(f"def test_a():\n    {code}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_a.py"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert explain_doubtful_success("python -m pytest -q test_a.py", done.stdout + done.stderr) == doubt
