"""Which names are those of tests, and of what decides how tests run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.reading import (
    is_runner_setting,
    is_start_up_file,
    is_task_file,
    is_test,
    shadowing_module,
    source_of,
    task_program,
)


def words(text: str) -> list[str]:
    return text.split()


TESTS = words("""
tests/a.py src/test_a.py a_test.go a.spec.ts a.test.tsx src/__tests__/a.js tests.py FooTest.java FooTests.cs
FooSpec.scala TestFoo.java UserTestCase.php LoginIT.java conftest.py deep/conftest.py
spec/models/user_spec.rb test/data/in.json tests/__init__.py src/test/java/com/acme/Foo.java login.cy.ts
run.bats a/__snapshots__/b.snap Tests/A.swift t/basic.t UnitTests/a.cpp MyAppTests/Calc.swift
unittests/c_add.py testsuite/a.py pkg/testdata/in.txt suites/login.robot integrationtests/a
__pycache__/conftest.cpython-311.pyc two_fer_test.exs TESTS/a.py crate/tests/it.rs
""")
TESTS_WHERE_THEY_ARE = words("""
testing/a.py features/steps/login.py api/features/steps/x.py features/environment.py
features/step_definitions/a.rb
""")
NO_TESTS = words("""
src/contest.py src/latest.py testimony.md docs/spec.md openapi-spec.yaml specs/api.md
src/numpy/testing/utils.py numpy/testing/utils.py src/features/steps/Counter.tsx a.ts
src/features/steps/counter.py features/login.py unittest/main.py src/app.text latests/a.py src/attest/a.py
Latest.java AUDIT.java Testing.md protester.js src/inspect.py
""")
RUNNER_SETTINGS = words("""
pytest.ini .pytest.ini pytest.toml a/tox.ini noxfile.py .coveragerc jest.config.js jest.config.ci.mjs
vitest.config.ts vitest.workspace.json karma.conf.js .mocharc.yml .nycrc phpunit.xml phpunit.xml.dist .rspec
cypress.config.ts playwright.config.ts PYTEST.INI
""")
NO_RUNNER_SETTINGS = words("setup.py src/config.js jest.md karma.py cargo/config.toml my.ini a.json")


def test_tests() -> None:
    assert [path for path in TESTS + NO_TESTS if is_test(path)] == TESTS


def test_runner_settings() -> None:
    found = [path for path in RUNNER_SETTINGS + NO_RUNNER_SETTINGS if is_runner_setting(path)]
    assert found == RUNNER_SETTINGS


def test_task_files() -> None:
    paths = ["Makefile", "a/GNUmakefile", "ci.mk", "Rakefile", "justfile", "Taskfile.yml", "makefile.md"]
    assert [path for path in paths if is_task_file(path)] == paths[:-1]
    assert [path for path in paths if is_task_file(path, "make")] == paths[:3]
    assert [task_program(word) for word in ("make", "/usr/bin/gmake", "rake", "cmake", "")] == [
        "make", "make", "rake", None, None,
    ]  # fmt: skip


def test_start_up_files() -> None:
    paths = ["sitecustomize.py", "a/usercustomize.py", "x.pth", "pytest.py", "site.py", "path.py"]
    assert [path for path in paths if is_start_up_file(path)] == paths[:3]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("pytest.py", ("", "pytest")),
        ("src/unittest/__init__.py", ("src", "unittest")),
        ("a/b/shlex.py", ("a/b", "shlex")),
        ("shlex.pyc", ("", "shlex")),
        ("x/json.cpython-311-x86_64-linux-gnu.so", ("x", "json")),
        ("iniconfig/__init__.py", ("", "iniconfig")),
        ("PyTest.py", ("", "PyTest")),
        ("cmd/main.go", None),
        ("types/index.d.ts", None),
        ("packaging/debian/control", None),
        ("calc.py", None),
        ("app/__init__.py", None),
        ("__init__.py", None),
        ("json/decoder.py", None),
    ],
)
def test_modules_that_shadow_others(path: str, module: tuple[str, str] | None) -> None:
    assert shadowing_module(path) == module


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tests/__pycache__/test_a.cpython-311-pytest-8.3.pyc", "tests/test_a.py"),
        ("__pycache__/calc.cpython-313.opt-1.pyc", "calc.py"),
        ("tests/test_a.py", "tests/test_a.py"),
        ("tests/__pycache__/notes.txt", "tests/__pycache__/notes.txt"),
    ],
)
def test_the_source_of_a_compiled_module(path: str, source: str) -> None:
    assert source_of(path) == source


@pytest.mark.parametrize("path", TESTS_WHERE_THEY_ARE)
def test_folders_that_are_those_of_tests_at_the_top(path: str) -> None:
    assert is_test(path)
    assert not is_test(f"src/{path}")


@given(st.lists(st.sampled_from(["src", "lib", "a.b", "x y"]), max_size=3), st.sampled_from(TESTS))
def test_a_test_is_one_wherever_it_lies(folders: list[str], path: str) -> None:
    assert is_test("/".join([*folders, path]))
