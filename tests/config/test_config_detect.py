"""Guessing how a project is tested."""

from pathlib import Path

import pytest

from headgate.config.detect import Detection, Kind, detect_project
from headgate.core.settings import VerifyStep

PLAIN_TEST = "def test_it():\n    assert True\n"
UNIT_TEST = "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self): ...\n"
NO_TEST = 'echo \\"Error: no test specified\\" && exit 1'


def build(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def commands(detection: Detection) -> dict[str, str]:
    return {step.name: step.command for step in detection.steps}


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        ({"pyproject.toml": "", "tests/test_a.py": PLAIN_TEST}, {"tests": "python -m pytest -q"}),
        ({"setup.py": "", "tests/test_a.py": UNIT_TEST}, {"tests": "python -m unittest discover -s tests"}),
        (
            {"tests/__init__.py": "", "tests/test_a.py": UNIT_TEST},
            {"tests": "python -m unittest discover -s tests -t ."},
        ),
        ({"a.py": "", "test_a.py": UNIT_TEST}, {"tests": "python -m unittest discover"}),
        (
            {"requirements-dev.txt": "pytest==8\n", "test/test_a.py": UNIT_TEST},
            {"tests": "python -m pytest -q"},
        ),
        (
            {"tox.ini": "[testenv]\ncommands = pytest\n", "t/a_test.py": UNIT_TEST},
            {"tests": "python -m pytest -q"},
        ),
        (
            {"uv.lock": "", "pyproject.toml": "", "test_a.py": PLAIN_TEST},
            {"tests": "uv run python -m pytest -q"},
        ),
        (
            {"poetry.lock": "", "pyproject.toml": "", "test_a.py": PLAIN_TEST},
            {"tests": "poetry run python -m pytest -q"},
        ),
        (
            {".venv/bin/python": "", "src/pkg/tests/test_a.py": PLAIN_TEST},
            {"tests": ".venv/bin/python -m pytest -q"},
        ),
        (
            {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\nfiles = 'src'\n", "test_a.py": PLAIN_TEST},
            {"tests": "python -m pytest -q", "lint": "ruff check .", "types": "mypy"},
        ),
        (
            {"mypy.ini": "[mypy]\n", "ruff.toml": "", "uv.lock": "", "test_a.py": PLAIN_TEST},
            {
                "tests": "uv run python -m pytest -q",
                "lint": "uv run python -m ruff check .",
                "types": "uv run python -m mypy .",
            },
        ),
        ({"pyproject.toml": "[broken", "test_a.py": PLAIN_TEST}, {"tests": "python -m pytest -q"}),
        (
            {"package.json": '{"scripts": {"test": "t", "lint": "l", "typecheck": "c", "build": "b"}}'},
            {
                "tests": "npm test",
                "lint": "npm run lint",
                "types": "npm run typecheck",
                "build": "npm run build",
            },
        ),
        ({"package.json": '{"scripts": {"test": "x"}}', "pnpm-lock.yaml": ""}, {"tests": "pnpm test"}),
        ({"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""}, {"tests": "yarn test"}),
        ({"package.json": '{"scripts": {"test": "x"}}', "bun.lock": ""}, {"tests": "bun run test"}),
        ({"package.json": f'{{"scripts": {{"test": "{NO_TEST}"}}}}'}, {}),
        ({"package.json": '["odd"]'}, {}),
        ({"go.mod": "module m\n"}, {"vet": "go vet ./...", "tests": "go test ./..."}),
        ({"Cargo.toml": "[package]\n"}, {"tests": "cargo test"}),
        ({"Cargo.toml": "[workspace]\n"}, {"tests": "cargo test --workspace"}),
        ({"pom.xml": ""}, {"tests": "mvn -q -B test"}),
        ({"pom.xml": "", "mvnw": ""}, {"tests": "./mvnw -q -B test"}),
        ({"build.gradle.kts": "", "gradlew": ""}, {"tests": "./gradlew -q test"}),
        ({"build.gradle": ""}, {"tests": "gradle -q test"}),
        ({"Makefile": "all:\n\ttrue\ntest: all\n\ttrue\n"}, {"tests": "make test"}),
        ({"makefile": "lint check:\n\ttrue\n"}, {"tests": "make check"}),
        ({"Makefile": "test := 5\ntested:\n\ttrue\n"}, {}),
        (
            {"CMakeLists.txt": "enable_testing()\n"},
            {
                "configure": "cmake -S . -B build",
                "build": "cmake --build build",
                "tests": "ctest --test-dir build --output-on-failure",
            },
        ),
        ({"README.md": "hello"}, {}),
    ],
)
def test_steps(tmp_path: Path, files: dict[str, str], steps: dict[str, str]) -> None:
    assert commands(detect_project(build(tmp_path, files))) == steps


def test_several_kinds_are_all_listed(tmp_path: Path) -> None:
    build(tmp_path, {"go.mod": "", "Cargo.toml": "", "Makefile": "test:\n\tgo test\n"})
    assert detect_project(tmp_path) == Detection(
        kinds=(Kind("Go", "go.mod"), Kind("Rust", "Cargo.toml"), Kind("Make", "Makefile")),
        steps=(
            VerifyStep(name="vet", command="go vet ./..."),
            VerifyStep(name="tests", command="go test ./..."),
            VerifyStep(name="tests-rust", command="cargo test"),
        ),
    )


def test_nothing_known_is_said(tmp_path: Path) -> None:
    assert detect_project(tmp_path) == Detection(
        hints=("No known kind of project was seen: name the commands that verify it yourself.",)
    )


def test_a_project_without_tests_is_said(tmp_path: Path) -> None:
    build(tmp_path, {"pyproject.toml": "[project]\ndependencies = ['pytest']\n"})
    assert detect_project(tmp_path) == Detection(
        kinds=(Kind("Python", "pyproject.toml"),),
        hints=(
            "Python: no test files were found.",
            "No tests were found: name the commands that verify the project yourself.",
        ),
    )


def test_another_interpreter(tmp_path: Path) -> None:
    build(tmp_path, {"test_a.py": PLAIN_TEST})
    assert commands(detect_project(tmp_path, "python3")) == {"tests": "python3 -m pytest -q"}


def test_dependencies_are_not_the_project(tmp_path: Path) -> None:
    build(tmp_path, {"node_modules/x/test_a.py": PLAIN_TEST, "venv/lib/test_b.py": PLAIN_TEST})
    assert detect_project(tmp_path).kinds == ()
