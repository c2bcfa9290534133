"""Guessing how a project is tested."""

import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from headgate.config import Detection, detect_project
from headgate.config.projects import ProjectKind
from headgate.core import VerifyStep

PLAIN_TEST = "def test_it():\n    assert True\n"
UNIT_TEST = "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self): ...\n"


def build(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def commands(detection: Detection) -> dict[str, str]:
    return {step.name: step.command for step in detection.steps}


# Each file of a project with its content; then the steps that follow, after `>>`.
PROJECTS = r"""
pyproject.toml | tests/test_a.py = PLAIN
>> tests: python3 -m pytest -q
setup.py | tests/test_a.py = UNIT
>> tests: python3 -m unittest discover -s tests
tests/__init__.py | tests/test_a.py = UNIT
>> tests: python3 -m unittest discover -s tests -t .
a.py | test_a.py = UNIT
>> tests: python3 -m unittest discover
requirements-dev.txt = pytest==8\n | test/test_a.py = UNIT
>> tests: python3 -m pytest -q
tox.ini = [testenv]\ncommands = pytest\n | t/a_test.py = UNIT
>> tests: python3 -m pytest -q
uv.lock | pyproject.toml | test_a.py = PLAIN
>> tests: uv run python -m pytest -q
poetry.lock | pyproject.toml | test_a.py = PLAIN
>> tests: poetry run python -m pytest -q
.venv/bin/python | src/pkg/tests/test_a.py = PLAIN
>> tests: .venv/bin/python -m pytest -q
pyproject.toml = [tool.ruff]\n[tool.mypy]\nfiles = 'src'\n | test_a.py = PLAIN
>> tests: python3 -m pytest -q | lint: ruff check . | types: mypy
mypy.ini = [mypy]\n | ruff.toml | uv.lock | test_a.py = PLAIN
>> tests: uv run python -m pytest -q | lint: uv run python -m ruff check . | types: uv run python -m mypy .
pyproject.toml = [broken | test_a.py = PLAIN
>> tests: python3 -m pytest -q
package.json = {"scripts": {"test": "t", "lint": "FORCE=1 eslint . && biome ci", "typecheck": "tsc", "build": "node build.js"}, "dependencies": {"typescript": "5"}, "devDependencies": {"eslint": "9", "@biomejs/biome": "2"}}
>> tests: npm test | lint: npm run lint | types: npm run typecheck | build: npm run build
package.json = {"scripts": {"test": "x"}} | pnpm-lock.yaml
>> tests: pnpm test
package.json = {"scripts": {"test": "x"}} | yarn.lock
>> tests: yarn test
package.json = {"scripts": {"test": "x"}} | bun.lock
>> tests: bun run test
package.json = {"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}
>>
package.json = ["odd"]
>>
go.mod = module m\n
>> vet: go vet ./... | tests: go test ./...
Cargo.toml = [package]\n
>> tests: cargo test
Cargo.toml = [workspace]\n
>> tests: cargo test --workspace
pom.xml
>> tests: mvn -q -B test
pom.xml | mvnw
>> tests: ./mvnw -q -B test
build.gradle.kts | gradlew
>> tests: ./gradlew -q test
build.gradle
>> tests: gradle -q test
Makefile = all:\n\ttrue\ntest: all\n\ttrue\n
>> tests: make test
makefile = lint check:\n\ttrue\n
>> tests: make check
Makefile = test := 5\ntested:\n\ttrue\n
>>
CMakeLists.txt = enable_testing()\n
>> configure: cmake -S . -B build | build: cmake --build build
>> tests: ctest --test-dir build --output-on-failure
Gemfile = gem 'rspec'\ngem 'rubocop'\n | .rubocop.yml | spec/models/a_spec.rb
>> lint: bundle exec rubocop | tests: bundle exec rspec
a.gemspec | spec/a_spec.rb
>> tests: rspec
Gemfile | bin/rails | test/models/a_test.rb
>> tests: bin/rails test
Gemfile | Rakefile = Rake::TestTask.new\n
>> tests: bundle exec rake test
Rakefile = Minitest::TestTask.create\n
>> tests: rake test
Rakefile = task :deploy\n
>>
Gemfile | test/test_a.rb = require 'minitest/autorun'\n
>> tests: bundle exec ruby -Ilib -Itest -e 'Dir["./test/**/{test_*,*_test}.rb"].each { |file| require file }'
Gemfile
>>
App.sln | src/App/App.csproj = <Project/>
tests/App.Tests/App.Tests.csproj = <PackageReference Include="Microsoft.NET.Test.Sdk"/>
>> build: dotnet build | tests: dotnet test
App.csproj = <PackageReference Include="xunit"/>
>> build: dotnet build | tests: dotnet test
App.slnx | src/App/App.fsproj
>> build: dotnet build
composer.json = {"scripts": {"lint": "x", "test": "phpunit"}}
>> tests: composer test
composer.json = {"require-dev": {"phpunit/phpunit": "^11"}}
>> tests: vendor/bin/phpunit
composer.json = {"require-dev": {"pestphp/pest": "^3"}}
>> tests: vendor/bin/pest
phpunit.xml.dist
>> tests: phpunit
composer.json = {}
>>
api/composer.json = {"scripts": {"test": "x"}}
>> tests: cd api && composer test
web/Web.csproj = NUnit
>> build: cd web && dotnet build | tests: cd web && dotnet test
README.md = hello
>>
"""  # noqa: E501
OWN_STEPS = r"""
Makefile = test:\n\ttox\n\nlint:\n\truff check sqlparse/\n
>> lint: ruff check sqlparse/
Makefile = SRC := lib tools\nlint: deps ## look\n\t@echo Looking\n\t@ruff check $(SRC)\n
>> lint: ruff check lib tools
Makefile = check:\n\truff check src \\\n\t  tests\n\truff format --check src\n\tmypy src\n
>> lint: ruff check src tests && ruff format --check src | types: mypy src
Makefile = lint:\n\truff check --fix .\n\truff format .\n\t-flake8\n\tblack .\n
>>
Makefile = lint:\n\truff check . > log\n\truff check $(UNKNOWN)\n
>>
Makefile = release:\n\truff check lib\n
>>
Makefile = lint: release\n\nrelease:\n\truff check lib\n
>>
justfile = lint:\n    flake8 lib\n
>> lint: flake8 lib
tox.ini = [testenv]\ncommands = pytest {posargs:tests}\n[testenv:lint]\ncommands =\n  flake8 a\n
>> tests: python3 -m pytest tests | lint: flake8 a
noxfile.py = def lint(session):\n    session.install('ruff')\n    session.run('ruff', 'check', 'a')\n
>> lint: ruff check a
pyproject.toml = [tool.ruff]\n[tool.hatch.envs.default.scripts]\nlint = ['ruff check a && mypy a']\n
>> lint: ruff check a | types: mypy a
pyproject.toml = [tool.ruff]\n[tool.poe.tasks]\nlint.cmd = 'ruff check a'\n
>> lint: ruff check a
.github/workflows/ci.yml = jobs:\n  a:\n    steps:\n      - uses: x\n      - run: |\n          pip install ruff\n          ruff check --output-format=github src\n          pytest -n auto --cov=x tests\n      - run: mypy ${{ matrix.a }}\n
>> tests: python3 -m pytest tests | lint: ruff check --output-format=github src
Makefile = lint:\n\truff check one\n | tox.ini = [testenv:lint]\ncommands = ruff check two\n
>> lint: ruff check one
Makefile = lint:\n\tuv run ruff check a\n
>> lint: uv run ruff check a
Makefile = lint:\n\tpython -m pylint a\n
>> lint: pylint a
Makefile = test:\n\tpytest\n
>>
Makefile = test:\n\tpython3 -m unittest discover -s a\n
>> tests: python3 -m unittest discover -s a
.github/workflows/ci.yml = jobs: [\n | tox.ini = commands = a\n | noxfile.py = def (
>>
"""  # noqa: E501


def cases(table: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """The files of each project, and its steps."""
    found: list[tuple[dict[str, str], dict[str, str]]] = []
    for block in re.findall(r"(?:(?!>>).+\n)+(?:>>.*\n)+", table):
        files, steps = dict[str, str](), dict[str, str]()
        for line in block.splitlines():
            for part in line.removeprefix(">>").strip().split(" | ") if line != ">>" else ():
                name, _, text = part.partition(": " if line.startswith(">>") else " = ")
                text = {"PLAIN": PLAIN_TEST, "UNIT": UNIT_TEST}.get(
                    text, text.encode().decode("unicode_escape")
                )
                (steps if line.startswith(">>") else files)[name] = text
        found.append((files, steps))
    return found


@pytest.mark.parametrize(("files", "steps"), cases(PROJECTS))
def test_steps(tmp_path: Path, files: dict[str, str], steps: dict[str, str]) -> None:
    assert commands(detect_project(build(tmp_path, files))) == steps


def test_several_kinds_are_all_listed(tmp_path: Path) -> None:
    build(tmp_path, {"go.mod": "", "Cargo.toml": "", "Makefile": "test:\n\tgo test\n"})
    assert detect_project(tmp_path) == Detection(
        kinds=(
            ProjectKind("Go", "go.mod"),
            ProjectKind("Rust", "Cargo.toml"),
            ProjectKind("Make", "Makefile"),
        ),
        steps=(
            VerifyStep(name="vet", command="go vet ./..."),
            VerifyStep(name="tests", command="go test ./..."),
            VerifyStep(name="tests-rust", command="cargo test"),
        ),
    )


def test_nothing_known_is_said(tmp_path: Path) -> None:
    assert detect_project(tmp_path) == Detection(
        hints=("No known kind of project was found: add the commands that check it to agent.yaml.",)
    )


def test_a_project_without_tests_is_said(tmp_path: Path) -> None:
    build(tmp_path, {"pyproject.toml": "[project]\ndependencies = ['pytest']\n"})
    assert detect_project(tmp_path) == Detection(
        kinds=(ProjectKind("Python", "pyproject.toml"),),
        hints=(
            "Python: no test files were found.",
            "No tests were found: add the commands that check the project to agent.yaml.",
        ),
    )


def test_another_interpreter(tmp_path: Path) -> None:
    build(tmp_path, {"test_a.py": PLAIN_TEST})
    assert commands(detect_project(tmp_path, "python")) == {"tests": "python -m pytest -q"}


def test_a_script_without_its_tool_is_left_out(tmp_path: Path) -> None:
    scripts = '{"scripts": {"test": "jest", "lint": "eslint .", "build": "vite build"}}'
    build(tmp_path, {"package.json": scripts, "node_modules/.bin/vite": ""})
    detection = detect_project(tmp_path)
    assert commands(detection) == {"tests": "npm test", "build": "npm run build"}
    assert detection.hints == (
        'Node: the script "lint" was left out: its tool eslint is neither installed nor among the '
        "dependencies.",
    )


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        ({"b/calc.py": "", "b/test_calc.py": UNIT_TEST}, " -s b"),
        (
            {"src/p/__init__.py": "", "src/p/tests/__init__.py": "", "src/p/tests/test_a.py": UNIT_TEST},
            " -s src",
        ),
        ({"p/__init__.py": "", "p/test/__init__.py": "", "p/test/test_a.py": UNIT_TEST}, " -s p -t ."),
        ({"tests/unit/__init__.py": "", "tests/unit/test_a.py": UNIT_TEST}, " -s tests"),
        ({"my tests/test_a.py": UNIT_TEST}, " -s 'my tests'"),
        ({"a_test.py": UNIT_TEST}, " -p '*_test.py'"),
        ({"tests/tests.py": UNIT_TEST}, " -s tests"),
    ],
)
def test_discovery_finds_the_tests(tmp_path: Path, files: dict[str, str], arguments: str) -> None:
    command = commands(detect_project(build(tmp_path, files), sys.executable))["tests"]
    assert command == f"{sys.executable} -m unittest discover{arguments}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Ran 1 test " in done.stderr


def test_tests_that_one_discovery_does_not_find_are_named(tmp_path: Path) -> None:
    build(tmp_path, {"a/test_a.py": UNIT_TEST, "a/test_b.py": UNIT_TEST, "c/test_c.py": UNIT_TEST})
    detection = detect_project(tmp_path)
    assert commands(detection) == {"tests": "python3 -m unittest discover -s a"}
    assert detection.hints == ("Python: the tests in c were left out: add a step if you need them.",)


class TestBelowTheRoot:
    """Projects in folders below the root."""

    def test_the_only_project_is_run_in_its_folder(self, tmp_path: Path) -> None:
        build(
            tmp_path,
            {"my app/pyproject.toml": "", "my app/tests/test_a.py": UNIT_TEST, ".venv/bin/python": ""},
        )
        assert detect_project(tmp_path) == Detection(
            kinds=(ProjectKind("Python", "my app/pyproject.toml"),),
            steps=(
                VerifyStep(
                    name="tests", command="cd 'my app' && ../.venv/bin/python -m unittest discover -s tests"
                ),
            ),
        )

    def test_it_stands_next_to_what_is_in_the_root(self, tmp_path: Path) -> None:
        build(
            tmp_path, {"go.mod": "", "web/package.json": '{"scripts": {"test": "jest"}}', "web/tool.py": ""}
        )
        assert commands(detect_project(tmp_path)) == {
            "vet": "go vet ./...",
            "tests": "go test ./...",
            "tests-node": "cd web && npm test",
        }

    def test_several_are_named_and_left_to_the_user(self, tmp_path: Path) -> None:
        build(tmp_path, {"a/package.json": "{}", "b/pyproject.toml": "", "b/calc.py": ""})
        build(tmp_path, {"b/tests/test_calc.py": UNIT_TEST})
        assert detect_project(tmp_path) == Detection(
            kinds=(ProjectKind("Node", "a/package.json"), ProjectKind("Python", "b/pyproject.toml")),
            hints=(
                'a: Node: package.json has no "test" script.',
                "Several projects below the root were left out: a (Node), b (Python). Add the steps "
                'that you need, such as "cd FOLDER && COMMAND".',
            ),
            left_out=(VerifyStep(name="b-tests", command="cd b && python3 -m unittest discover -s tests"),),
        )

    @pytest.mark.parametrize(
        "files",
        [
            {"Cargo.toml": "[workspace]", "crates/a/Cargo.toml": "", "crates/b/Cargo.toml": ""},
            {"package.json": '{"workspaces": ["p/*"], "scripts": {"test": "x"}}', "p/a/package.json": "{}"},
            {"pyproject.toml": "[tool.pytest]", "libs/a/pyproject.toml": "", "libs/a/test_a.py": PLAIN_TEST},
            {"go.work": "use (\n\t./a\n\t./b\n)\n", "a/go.mod": "", "b/go.mod": ""},
            {"go.mod": "", "tests/fixtures/p/package.json": "{}", "examples/e/Cargo.toml": ""},
        ],
    )
    def test_what_the_root_runs_anyway_is_not_named(self, tmp_path: Path, files: dict[str, str]) -> None:
        detection = detect_project(build(tmp_path, files))
        assert (len(detection.kinds), detection.hints, detection.left_out) == (1, (), ())

    def test_a_makefile_is_trusted_to_run_what_is_below(self, tmp_path: Path) -> None:
        build(tmp_path, {"Makefile": "test:\n\ttrue\n", "web/package.json": '{"scripts": {"test": "jest"}}'})
        detection = detect_project(tmp_path)
        assert commands(detection) == {"tests": "make test"}
        assert detection.left_out == (VerifyStep(name="web-tests", command="cd web && npm test"),)

    def test_modules_of_a_go_workspace(self, tmp_path: Path) -> None:
        build(tmp_path, {"go.work": "go 1.22\n\nuse ./a\nuse ./b/c\n"})
        assert commands(detect_project(tmp_path))["tests"] == "go test ./a/... ./b/c/..."


def test_dependencies_are_not_the_project(tmp_path: Path) -> None:
    build(tmp_path, {"node_modules/x/test_a.py": PLAIN_TEST, "venv/lib/test_b.py": PLAIN_TEST})
    assert detect_project(tmp_path).kinds == ()


class TestWhatTheProjectSays:
    """A project's own files come before what is usual for its kind."""

    RUFF = "[tool.ruff]\n"
    USUAL: ClassVar = {"tests": "python3 -m pytest -q", "lint": "ruff check ."}

    @pytest.mark.parametrize(("files", "own"), cases(OWN_STEPS))
    def test_it_comes_first(self, tmp_path: Path, files: dict[str, str], own: dict[str, str]) -> None:
        usual = {"pyproject.toml": self.RUFF, "test_a.py": PLAIN_TEST}
        assert commands(detect_project(build(tmp_path, usual | files))) == self.USUAL | own

    def test_where_it_comes_from_is_said(self, tmp_path: Path) -> None:
        files = {"pyproject.toml": self.RUFF, "test_a.py": PLAIN_TEST, "Makefile": "lint:\n\truff check a\n"}
        assert 'The step "lint" comes from Makefile.' in detect_project(build(tmp_path, files)).hints

    def test_a_program_that_is_not_there_gives_no_step(self, tmp_path: Path) -> None:
        files = {"pyproject.toml": self.RUFF, "test_a.py": PLAIN_TEST, "Makefile": "lint:\n\tflake8 a\n"}
        found = detect_project(build(tmp_path, files), has=lambda program: program == "python3")
        assert commands(found) == {"tests": "python3 -m pytest -q"}
        assert 'Left out: "ruff check .", because its program was not found.' in found.hints
        found = detect_project(tmp_path, has=lambda program: program == "ruff")
        assert commands(found) == self.USUAL

    def test_the_project_s_own_environment(self, tmp_path: Path) -> None:
        files = {"pyproject.toml": self.RUFF, "test_a.py": PLAIN_TEST, "Makefile": "lint:\n\truff check a\n"}
        build(tmp_path, files | {".venv/bin/python": "", ".venv/bin/ruff": ""})
        assert commands(detect_project(tmp_path, has=lambda program: False)) == {
            "tests": ".venv/bin/python -m pytest -q",
            "lint": ".venv/bin/ruff check a",
        }

    def test_of_another_language(self, tmp_path: Path) -> None:
        files = {"go.mod": "", "Makefile": "test:\n\tgo test -race ./...\nlint:\n\tgolangci-lint run\n"}
        assert commands(detect_project(build(tmp_path, files))) == {
            "vet": "go vet ./...",
            "tests": "go test -race ./...",
            "lint": "golangci-lint run",
        }
