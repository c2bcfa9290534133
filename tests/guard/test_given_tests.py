"""What a verification step names as tests, in repositories of files that are not called tests."""

from pathlib import Path

import pytest

from headgate.guard import ProtectedTests, StartFiles

CALC = "def add(a, b):\n    return a + b\n"
USES_CALC = "from calc import add\nassert add(1, 2) == 3\n"
BASE = {"calc.py": CALC, "src/app.py": "import calc\n", "testsuite/c_add.py": USES_CALC}


def protected(root: Path, files: dict[str, str], command: str, directory: str = "") -> set[str]:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    plain = ProtectedTests("existing", lambda: StartFiles(tuple(files)), (), directory, root)
    tests = ProtectedTests("existing", lambda: StartFiles(tuple(files)), [command], directory, root)
    return {path for path in files if tests.covers(path) and not plain.covers(path)}


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python3 -m pytest -q checks/c_add.py", {"checks/c_add.py"}),
        ("pytest checks/c_add.py::test_x -k add", {"checks/c_add.py"}),
        ("pytest checks", {"checks/c_add.py", "checks/data.json"}),
        ("pytest ./checks/ --cov src --cov-report term", {"checks/c_add.py", "checks/data.json"}),
        ("pytest --rootdir checks", {"checks/c_add.py", "checks/data.json"}),
        ("pytest checks/c_*.py", {"checks/c_add.py"}),
        ("pytest 'checks/*.py'", {"checks/c_add.py", "checks/data.json"}),
        ("cd checks && pytest c_add.py", {"checks/c_add.py"}),
        ("python -m unittest discover -s checks", {"checks/c_add.py", "checks/data.json"}),
        ("python -m unittest discover checks 'c_*.py'", {"checks/c_add.py", "checks/data.json"}),
        ("python -m unittest discover -p 'c_*.py'", {"checks/c_add.py"}),
        ("cd checks && python -m unittest discover -p 'c_*.py'", {"checks/c_add.py", "checks/data.json"}),
        ("python -m unittest checks.c_add.Case.test_it", {"checks/c_add.py"}),
        ("uv run --extra dev coverage run -m pytest checks/c_add.py", {"checks/c_add.py"}),
        ("poetry run pytest -x checks/c_add.py", {"checks/c_add.py"}),
        ("python main.py | diff - golden.txt", {"golden.txt"}),
        ("python main.py > golden.txt; diff golden.txt checks/data.json", set()),
        ("echo 3 | diff - checks/data.json", set()),
        ("PYTHONPATH=. python3 -W error -m pytest checks/c_add.py", {"checks/c_add.py"}),
        ("bash -c 'pytest checks/c_add.py'", {"checks/c_add.py"}),
        ("ruff check src checks", set()),
        ("mypy checks", set()),
        ("black --check .", set()),
        ("pytest", set()),
        ("pytest .", set()),
        ("pytest src", set()),
        ("pytest lib", set()),
        ("pytest --doctest-modules checks", set()),
        ("pytest --cov checks", set()),
        ("pytest --ignore checks", set()),
        ("pip install pytest checks", set()),
        ("go test ./checks/...", set()),
        ("cargo test checks", set()),
        ("python -m compileall checks", set()),
        ("python -m unittest", set()),
    ],
)
def test_what_a_command_names(tmp_path: Path, command: str, named: set[str]) -> None:
    files = {
        "calc.py": CALC,
        "main.py": "print(3)\n",
        "golden.txt": "3\n",
        "src/app.py": "import calc\n",
        "lib/util.py": "",
        "checks/c_add.py": USES_CALC,
        "checks/data.json": "{}",
    }
    assert protected(tmp_path, files, command) == named


@pytest.mark.parametrize(
    ("command", "file", "text"),
    [
        ("make check", "Makefile", "P=pytest\nD = checks\ncheck: a\n\t@$P \\\n\t $(D)/c_add.py\na:\n\tx\n"),
        ("make", "Makefile", ".PHONY: all\nall: unit\nunit:\n\tpytest checks/c_add.py\n"),
        ("make all", "Makefile", "all:\n\t$(MAKE) unit\nunit:\n\tcd checks && pytest c_add.py\n"),
        ("make -f ci.mk x T=checks/c_add.py", "ci.mk", "x:\n\tpytest $(T)\n"),
        ("(cd src && true); cd sub && make", "sub/Makefile", "x:\n\tcd .. && pytest checks/c_add.py\n"),
        ("npm run check", "package.json", '{"scripts": {"check": "node --test checks/c_add.py"}}'),
        ("npm test", "package.json", '{"scripts": {"pretest": "pytest checks/c_add.py", "test": "x"}}'),
        ("yarn check", "package.json", '{"scripts": {"check": "pnpm run it", "it": "jest checks/c_add.py"}}'),
        ("tox", "tox.ini", "[testenv]\ncommands =\n  ruff check\n  pytest {posargs:checks/c_add.py}\n"),
        ("tox -e py", "tox.ini", "[testenv:py]\nchangedir = checks\ncommands = python -m pytest c_add.py\n"),
        ("python -m tox", "tox.toml", 'env_run_base.commands = [["pytest", "checks/c_add.py"]]\n'),
        ("just test", "justfile", "d := 'checks'\ntest: build\n    @pytest {{d}}/c_add.py\nbuild:\n    x\n"),
        ("nox -s tests", "noxfile.py", "def tests(session):\n    session.run('pytest', 'checks/c_add.py')\n"),
        ("sh ci.sh", "ci.sh", "set -e\npython3 -m pytest -q checks/c_add.py\n"),
        ("pdm run check", "pyproject.toml", "[tool.pdm.scripts]\ncheck = 'pytest checks/c_add.py'\n"),
        ("pytest", "pytest.ini", "[pytest]\ntestpaths = checks/c_add.py\n"),
        ("pytest", "pyproject.toml", "[tool.pytest.ini_options]\npython_files = ['c_*.py']\n"),
        ("python -m pytest .", "setup.cfg", "[tool:pytest]\npython_files = c_*.py\n"),
        ("composer check", "composer.json", '{"scripts": {"check": ["@it"], "it": "pest checks/c_add.py"}}'),
    ],
)  # fmt: skip
def test_what_the_file_of_a_task_runner_names(tmp_path: Path, command: str, file: str, text: str) -> None:
    files = {"calc.py": CALC, "src/app.py": "", "checks/c_add.py": USES_CALC, file: text}
    assert protected(tmp_path, files, command) - {file} == {"checks/c_add.py"}


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        ({"f/c_add.py": USES_CALC, "f/help.py": ""}, True),
        ({"f/test_add.py": USES_CALC, "f/help.py": ""}, False),
        ({"f/test_add.py": USES_CALC, "f/add.py": ""}, False),
        ({"f/tests/test_add.py": USES_CALC, "f/other.py": ""}, False),
        ({"f/test_all.py": "from f import core\n", "f/core.py": ""}, False),
        ({"f/core.py": "", "main.py": "from f.core import x\n"}, False),
        ({"f/core.js": "", "main.js": "const x = require('./f/core')\n"}, False),
        ({"f/sum.test.js": "import {add} from '../calc.js'\n", "f/tools.js": "", "calc.js": ""}, False),
        ({"f/sum.test.js": "import {add} from './calc.js'\n", "f/calc.js": ""}, False),
    ],
)
def test_a_folder_that_holds_code_too_is_not_closed(
    tmp_path: Path, files: dict[str, str], whole: bool
) -> None:
    found = protected(tmp_path, {"calc.py": CALC, "f/data.json": "", **files}, "pytest f")
    assert ("f/data.json" in found) == whole
    assert not any(path.endswith(("/add.py", "/other.py", "/core.py", "/calc.js")) for path in found)


def test_what_a_step_names_in_a_package(tmp_path: Path) -> None:
    files = {"api/calc.py": CALC, "api/checks/c_add.py": USES_CALC, "checks/c_add.py": ""}
    assert protected(tmp_path, files, "pytest checks", "api") == {"api/checks/c_add.py"}
    files = {"api/testing/a.py": "", "api/src/testing/a.py": "", "web/testing/a.py": ""}
    tests = ProtectedTests("existing", lambda: StartFiles(tuple(files)), directory="api")
    assert tests.tests() == ("api/testing/a.py",)


def test_new_files_in_a_folder_that_is_named() -> None:
    begun = StartFiles(("calc.py", "checks/c_add.py"))
    tests = ProtectedTests("all", lambda: begun, ["pytest checks checks2/c_new.py"])
    assert tests.covers("checks/c_new.py")
    assert tests.covers("Checks/C_ADD.py")
    assert tests.enters("checks")
    assert tests.covers("checks2/c_new.py")
    assert not tests.covers("calc2.py")


def test_paths_of_the_configuration() -> None:
    begun = StartFiles(("calc.py", "qa/a.json", "deep/er/x.case", "e2e/{a}.py"))
    tests = ProtectedTests("existing", lambda: begun, paths=["qa/**", "*.{case,other}"])
    assert [path for path in begun.files if tests.covers(path)] == ["qa/a.json", "deep/er/x.case"]
    assert tests.tests() == ("qa/a.json", "deep/er/x.case")


def test_a_file_that_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "Makefile").mkdir()
    (tmp_path / "package.json").write_bytes(b"\xff\xfe{")
    (tmp_path / "tox.ini").write_text("no section\n")
    (tmp_path / "noxfile.py").write_text("def (")
    tests = ProtectedTests(
        "existing",
        lambda: StartFiles(("calc.py",)),
        ["make x", "npm run x", "tox", "nox", "just", "sh ../../etc/passwd", "make -C /etc", "sh loop.sh"],
        root=tmp_path,
    )
    assert not tests.covers("calc.py")


def test_files_that_run_each_other_come_to_an_end(tmp_path: Path) -> None:
    files = {
        "calc.py": CALC,
        "checks/c_add.py": USES_CALC,
        "a.sh": "sh b.sh\n",
        "b.sh": "sh a.sh\npytest checks\n",
        "Makefile": "X = $(X) $(X)\nt: u\n\tmake t\nu: t\n",
    }
    assert protected(tmp_path, files, "sh a.sh; make t") == {
        *("checks/c_add.py", "a.sh", "b.sh", "Makefile"),
    }
