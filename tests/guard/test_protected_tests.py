"""What the guard of tests refuses, and what it keeps from commands."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Access, Denial
from headgate.guard import ProtectedTests, StartFiles

START = (
    *("app.py", "tests/test_app.py", "tests/data/in.json", "conftest.py", "pytest.ini", "pyproject.toml"),
    *("Makefile", "CMakeLists.txt", "check.sh", "ci/verify.py", "main.py", "build/tests/test_kept.py"),
    *("src/FooTest.java", "greeting.txt", "gradlew", "jest.ci.js", "program.sh"),
)
NEW = (
    *("tests/test_new.py", "tests/__init__.py", "sub/conftest.py", "tox.ini", "sitecustomize.py", "x.pth"),
    *("pytest.py", "Rakefile", "new.py", "node_modules/x/test.js", "venv/lib/site-packages/tests/a.py"),
    *("tests/__pycache__/test_app.cpython-311.pyc", "__pycache__/app.cpython-311.pyc", "package.json"),
    *("vendored/tests/test_theirs.py", "vendored/lib.py", "target/debug/deps/test_app"),
)
Mode = Literal["existing", "all"]
MODES: tuple[Mode, ...] = ("existing", "all")


def protected(
    mode: Mode, *commands: str, directory: str = "", files: Sequence[str] = START
) -> ProtectedTests:
    return ProtectedTests(mode, lambda: StartFiles(tuple(files), ("vendored",)), commands, directory)


def test_existing() -> None:
    tests = protected("existing")
    assert {path for path in START + NEW if tests.covers(path)} == {
        *("tests/test_app.py", "tests/data/in.json", "conftest.py", "pytest.ini", "pyproject.toml"),
        *("build/tests/test_kept.py", "src/FooTest.java", "tests/__pycache__/test_app.cpython-311.pyc"),
        "vendored/tests/test_theirs.py",
    }


def test_all() -> None:
    tests = protected("all")
    assert {path for path in START + NEW if not tests.covers(path)} == {
        *("app.py", "check.sh", "ci/verify.py", "main.py", "greeting.txt", "new.py", "jest.ci.js"),
        "program.sh",
        *("node_modules/x/test.js", "venv/lib/site-packages/tests/a.py", "__pycache__/app.cpython-311.pyc"),
        *("vendored/lib.py", "target/debug/deps/test_app"),
    }


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("sh check.sh", {"check.sh"}),
        ("bash -eu ./check.sh --fast", {"check.sh"}),
        ("./check.sh", {"check.sh"}),
        ("cd x && . ./check.sh", {"check.sh"}),
        ("bash -c 'sh check.sh && true'", {"check.sh"}),
        ("python ci/verify.py", {"ci/verify.py"}),
        ("make test", {"Makefile"}),
        ("env CI=1 make -j2 test", {"Makefile"}),
        ("./gradlew test", {"gradlew"}),
        ("jest --config=jest.ci.js", {"jest.ci.js"}),
        ("jest -c jest.ci.js", {"jest.ci.js"}),
        ("python main.py", set()),
        ("sh check.sh < greeting.txt", {"check.sh"}),
        ("sh program.sh", {"program.sh"}),
        ("sh program.sh < greeting.txt | diff - expected.txt", {"program.sh"}),
        ('test "$(cat greeting.txt)" = hello', set()),
        ("grep -q hello greeting.txt", set()),
        ("test -f greeting.txt", set()),
        ("python -m pytest", set()),
    ],
)
def test_what_verification_runs(command: str, scripts: set[str]) -> None:
    plain = protected("existing")
    tests = protected("existing", command)
    assert {path for path in START if tests.covers(path) and not plain.covers(path)} == scripts


def test_what_the_configuration_takes_back() -> None:
    """It is no test, and no script that checks; what decides how tests run stays protected."""
    paths = ("qa/**", "!check.sh", "!src/FooTest.java", "!conftest.py", "!new_test.py", "!tests/data/")
    files = StartFiles((*START, "qa/one.txt"))
    tests = ProtectedTests("all", lambda: files, ["sh check.sh"], paths=paths)
    for path in ("check.sh", "src/FooTest.java", "new_test.py", "tests/data/in.json"):
        assert tests(Access("write", path, b"", b"x")) is None
        assert not tests.covers(path)
        assert not tests.decides(path)
    for path in ("conftest.py", "qa/one.txt", "tests/test_app.py", "other_test.py"):
        assert tests.covers(path)


def test_verification_in_a_package() -> None:
    tests = protected(
        "existing", "sh ../check.sh; sh run.sh", directory="api", files=["check.sh", "api/run.sh"]
    )
    assert [tests.covers(path) for path in ("check.sh", "api/run.sh", "run.sh")] == [True, True, False]


@pytest.mark.parametrize(
    "command", [".venv/bin/pytest -q", "timeout 9 ./.venv/bin/pytest", "sh -c .venv/bin/pytest"]
)
def test_a_program_that_is_not_there_yet(command: str) -> None:
    tests, existing = protected("all", command), protected("existing", command)
    names = [".venv/bin/pytest", ".venv/bin/flask", ".venv/lib/x.py"]
    assert [name for name in names if tests.covers(name)] == names[:1]
    assert [tests.enters(folder) for folder in (".venv", ".venv/bin", ".venv/lib")] == [True, True, False]
    assert (tests.decides(names[0]), tests.may_be_prepared(names[0], "created")) == (True, True)
    assert not existing.covers(names[0])
    assert protected("all", "env/bin/python -m pytest").may_be_prepared("env/bin/python", "created")


def test_what_the_model_is_told() -> None:
    tests = protected("existing", "sh check.sh")
    assert tests(Access("read", "tests/test_app.py")) is None
    assert tests(Access("run", "rm tests/test_app.py")) is None
    assert tests(Access("write", "app.py", b"a", b"b")) is None
    assert tests(Access("write", "tests/test_app.py", b"a", b"b")) == Denial(
        "tests/test_app.py is a test: this task may not change it."
    )
    assert tests(Access("write", "check.sh", b"a", None)) == Denial(
        "check.sh decides how the tests run: this task may not change it."
    )
    old, new = b"[project]\nname='a'\n", b"[project]\nname='b'\n"
    assert tests(Access("write", "pyproject.toml", old, new)) is None
    assert tests(Access("write", "pyproject.toml", old, new + b"[tool.pytest]\nx=1\n")) == Denial(
        "pyproject.toml: tool.pytest decides how the tests run; this task may not change that. "
        "You may change the rest of the file."
    )


@pytest.mark.parametrize(
    ("command", "directory"),
    [
        ("python -m pytest", "packages/api"),
        ("cd packages/api && python -m pytest", ""),
        ("(cd web && npm test); cd packages/api; pytest", ""),
        ("cd packages; cd ./api/ && pytest", ""),
        ("sh -c 'cd packages/api && pytest'", ""),
        ("PYTHONPATH=src:packages/api pytest", ""),
        ("make -C packages/api test", ""),
        ("uv run --directory=packages/api pytest", ""),
    ],
)
def test_modules_are_looked_for_where_steps_run(command: str, directory: str) -> None:
    tests = protected("all", command, directory=directory)
    names = ["pytest.py", "shlex.py", "unittest/main.py", "json/__init__.py", "src/json.py", "calc.py"]
    assert [name for name in names if tests.covers(f"packages/api/{name}")] == names[:-1]
    assert [name for name in names if tests.covers(f"packages/other/{name}")] == ["src/json.py"]
    assert not protected("existing", command, directory=directory).covers("packages/api/pytest.py")


def test_modules_are_looked_for_where_tests_lie() -> None:
    start = [
        "a/b/test_x.py",
        "a/c/__init__.py",
        "a/c/test_y.py",
        "web/types.py",
        "src/hypothesis/__init__.py",
    ]
    tests = protected("all", files=[*start, "lib/__init__.py"])
    new = ["a/b/types.py", "a/types.py", "types.py", "a/c/types.py", "web/queue.py", "src/hypothesis/new.py"]
    assert [path for path in [*new, "lib/types.py"] if tests.covers(path)] == new[:3]


def test_what_the_model_is_told_of_a_shadow() -> None:
    assert protected("all")(Access("write", "shlex.py", None, b"")) == Denial(
        "shlex.py decides how the tests run: the test runner would import it as the module shlex."
        " Choose another name."
    )


@pytest.mark.parametrize(
    "command",
    ["./prog", "gcc -o out/prog main.c && out/prog", "target/debug/app", "build/bin/unit", "bin/tool"],
)
def test_what_the_task_builds_is_free(command: str, tmp_path: Path) -> None:
    tests = ProtectedTests("all", StartFiles, [command], "", tmp_path)
    paths = ["prog", "out/prog", "target/debug/app", "build/bin/unit", "bin/tool", "main.c"]
    assert [path for path in paths if tests.covers(path)] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["bin/rspec", "cd bin && ./rspec --format doc", "env CI=1 bin/rspec"])
def test_a_runner_of_the_repository(mode: Mode, command: str) -> None:
    tests = protected(mode, command, files=["bin/rspec", "bin/tool"])
    assert [path for path in ("bin/rspec", "bin/tool") if tests.covers(path)] == ["bin/rspec"]


@pytest.mark.parametrize("mode", ["existing", "all"])
def test_case_does_not_matter_for_what_there_was(mode: Mode) -> None:
    tests = protected(mode)
    assert tests.covers("TESTS/Test_App.py")
    assert tests.covers("SRC/footest.JAVA")


@pytest.mark.parametrize("mode", ["existing", "all"])
def test_the_start_is_asked_for_once_and_late(mode: Mode) -> None:
    asked: list[int] = []

    def begun() -> StartFiles:
        asked.append(1)
        return StartFiles(START)

    tests = ProtectedTests(mode, begun)
    assert not asked
    assert tests.covers("tests/test_app.py")
    assert not tests.covers("app.py")
    assert asked == [1]


PARTS = ["tests", "src", "node_modules", "build", "__pycache__", "vendored", "a", ".venv", "bin", "unittest"]
NAMES = [
    "shlex.py",
    "pytest",
    "test_a.py",
    "a.py",
    "conftest.py",
    "test_a.cpython-311.pyc",
    "package.json",
    "x.pth",
    "Makefile",
]
PATHS = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(PARTS), max_size=4),
    st.sampled_from(NAMES),
)


@given(st.sampled_from(["existing", "all"]), st.lists(PATHS, max_size=5), PATHS)
def test_whatever_is_covered_is_found_by_walking(mode: Mode, start: list[str], path: str) -> None:
    tests = protected(mode, "make; .venv/bin/pytest; cd a; a/node_modules/bin/pytest", files=start)
    parts = path.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    if tests.covers(path):
        assert all(map(tests.enters, folders))


@given(st.lists(PATHS, max_size=5), PATHS)
def test_all_protects_more_than_existing(start: list[str], path: str) -> None:
    if protected("existing", "make", files=start).covers(path):
        assert protected("all", "make", files=start).covers(path)


@given(st.lists(PATHS, max_size=5), PATHS, st.binary(max_size=9), st.binary(max_size=9))
def test_tools_and_commands_are_judged_alike(start: list[str], path: str, old: bytes, new: bytes) -> None:
    tests = protected("all", files=start)
    denied = tests(Access("write", path, old, new)) is not None
    assert denied == (tests.covers(path) and not tests.accepts(path, old, new))


@pytest.mark.parametrize("mode", MODES)
def test_links_with_the_names_of_tests(mode: Mode, tmp_path: Path) -> None:
    (tmp_path / "qa" / "data").mkdir(parents=True)
    for folder in ("src", "ci", "it"):
        (tmp_path / folder).mkdir()
    (tmp_path / "ci" / "own.ini").write_text("")
    for link, target in (
        ("tests", "qa"),
        ("qa/src", "../src"),
        ("pytest.ini", "ci/own.ini"),
        ("suite", "it"),
    ):
        (tmp_path / link).symlink_to(target)
    files = ("tests", "qa/data/in.json", "qa/lib.py", "qa/src", "src/a.py", "pytest.ini", "ci/own.ini")
    start = StartFiles((*files, "suite", "it/one.py"))
    tests = ProtectedTests(mode, lambda: start, ["pytest suite"], "", tmp_path)
    free = {"qa/new.py", "it/new.py"} if mode == "existing" else set()
    given = {*start.files, "qa/new.py", "it/new.py", "src/new.py"}
    assert {path for path in given if not tests.covers(path)} == {"src/a.py", "src/new.py"} | free
    assert all(map(tests.enters, ("qa", "qa/data")))


@pytest.mark.parametrize("mode", MODES)
def test_links_among_the_tests(mode: Mode, tmp_path: Path) -> None:
    for folder in ("tests", "data/deep", "lib", "raw"):
        (tmp_path / folder).mkdir(parents=True)
    links = {
        "tests/in": "../data",
        "tests/lib": "../lib",
        "tests/one.json": "../way/one.json",
        "tests/helper.py": "../lib/helper.py",
        "tests/up": "..",
        "tests/circle": "../circle",
        "circle": "tests/circle",
        "tests/out": "/etc/hostname",
        "tests/taken": "../work.txt",
        "way": "raw",
        "data/deep/two.json": "../../raw/two.json",
        "other.json": "raw/three.json",
    }
    files = ("lib/a.py", "lib/a.json", "lib/helper.py", "raw/one.json", "raw/two.json", "raw/three.json")
    for path in (*files, "data/in.json", "work.txt", "app.py"):
        (tmp_path / path).write_text("")
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    start = StartFiles((*files, *links, "data/in.json", "work.txt", "app.py"))
    tests = ProtectedTests(mode, lambda: start, [], "", tmp_path, paths=["!work.txt"])
    free = {path for path in start.files if not tests.covers(path)}
    assert free == {
        *("lib/a.py", "raw/two.json", "raw/three.json", "other.json", "work.txt", "app.py", "circle")
    }
    assert tests.covers("data/new.json") == (mode == "all")


def test_settings_of_tools_and_files_that_say_how_to_build() -> None:
    files = ("pom.xml", ".npmrc", "web/package.json", "src/a.c")
    new = (
        ".mvn/extensions.xml",
        "bunfig.toml",
        "x-1.dist-info/entry_points.txt",
        "settings.gradle",
        "web/tsconfig.json",
    )
    free = ("src/CMakeLists.txt", "src/a.c")
    existing, every = (protected(mode, files=files) for mode in MODES)
    assert {path for path in (*files, *new, *free) if existing.covers(path)} == {".npmrc", "web/package.json"}
    assert [path for path in (*files, *new, *free) if not every.covers(path)] == ["src/a.c", *free]
