"""Kinds of projects whose steps follow from which files are there: a table. Nothing is run."""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from headgate.config.projects import FoundProject, ProjectKind, list_folder, read_text
from headgate.first_use import dataclass

_MOST_READ = 50


@dataclass(frozen=True, slots=True)
class Way:
    """A step, if the folder has files for each of these patterns, and one for the last has this in it.

    Without a pattern, the file that shows the kind is meant.
    """

    name: str
    command: str
    files: tuple[str, ...] = ()
    says: str = ""


@dataclass(frozen=True, slots=True)
class TableKind:
    """A kind of project: what shows it, and its steps. Of several ways to the same step the first counts."""

    name: str
    marks: tuple[str, ...]
    ways: tuple[Way, ...]
    covers: str | None = None
    """What its file says if its steps also run projects of this kind below it; an empty text: always."""
    no_tests: str = "no tests were found."
    """What people are told where there is no step for tests."""


def _make_target(name: str) -> str:
    return rf"(?m)^(?:[\w.-]+[ \t]+)*{name}(?:[ \t]+[\w.-]+)*[ \t]*::?(?!=)"


_RAKE_TEST = r"\bTestTask\b|\btask\b[ (]*[:'\"]?test\b"
_ALL_RUBY = """ruby -Ilib -Itest -e 'Dir["./test/**/{test_*,*_test}.rb"].each { |file| require file }'"""
_DOTNET = ("*.csproj", "*.fsproj", "*.vbproj")
_DOTNET_TESTS = r"Microsoft\.NET\.Test\.Sdk|(?i:xunit|nunit|mstest)"

_CARGO_WORKSPACE = r"(?m)^\s*\[workspace[].]"

KINDS = (
    TableKind("Go", ("go.mod",), (Way("vet", "go vet ./..."), Way("tests", "go test ./..."))),
    TableKind(
        "Rust",
        ("Cargo.toml",),
        (Way("tests", "cargo test --workspace", (), _CARGO_WORKSPACE), Way("tests", "cargo test")),
        covers=_CARGO_WORKSPACE,
    ),
    TableKind(
        "Java (Maven)",
        ("pom.xml",),
        (Way("tests", "./mvnw -q -B test", ("mvnw",)), Way("tests", "mvn -q -B test")),
        covers="<modules>",
    ),
    TableKind(
        "Java (Gradle)",
        ("build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle"),
        (Way("tests", "./gradlew -q test", ("gradlew",)), Way("tests", "gradle -q test")),
        covers="",
    ),
    TableKind(
        "CMake",
        ("CMakeLists.txt",),
        (
            Way("configure", "cmake -S . -B build"),
            Way("build", "cmake --build build"),
            Way(
                "tests",
                "ctest --test-dir build --output-on-failure",
                (),
                r"(?i)\b(?:enable_testing|add_test|include\s*\(\s*CTest)\b",
            ),
        ),
        covers="",
        no_tests="CMakeLists.txt declares no tests, so there is only a build.",
    ),
    TableKind(
        "Ruby",
        ("Gemfile", "*.gemspec", "Rakefile"),
        (
            Way("lint", "bundle exec rubocop", (".rubocop.yml", "Gemfile"), "rubocop"),
            Way("tests", "bundle exec rspec", ("Gemfile", "spec/**/*_spec.rb")),
            Way("tests", "rspec", ("spec/**/*_spec.rb",)),
            Way("tests", "bin/rails test", ("bin/rails", "test/**/*_test.rb")),
            Way("tests", "bundle exec rake test", ("Gemfile", "Rakefile"), _RAKE_TEST),
            Way("tests", "rake test", ("Rakefile",), _RAKE_TEST),
            Way("tests", f"bundle exec {_ALL_RUBY}", ("Gemfile", "test/**/*test*.rb")),
            Way("tests", _ALL_RUBY, ("test/**/*test*.rb",)),
        ),
    ),
    TableKind(
        ".NET",
        ("*.sln", "*.slnx", *_DOTNET),
        (
            *(Way("build", "dotnet build", (mark,)) for mark in ("*.sln", "*.slnx", *_DOTNET)),
            *(
                Way("tests", "dotnet test", (f"{folder}{mark}",), _DOTNET_TESTS)
                for folder in ("", "*/", "*/*/")
                for mark in _DOTNET
            ),
        ),
        covers="",
    ),
    TableKind(
        "PHP",
        ("composer.json", "phpunit.xml", "phpunit.xml.dist"),
        (
            Way("tests", "composer test", ("composer.json",), r'"scripts"\s*:\s*\{[^{}]*"test"\s*:'),
            Way("tests", "vendor/bin/pest", ("composer.json",), r'"pestphp/pest"'),
            Way("tests", "vendor/bin/phpunit", ("composer.json",), r'"phpunit/phpunit"'),
            Way("tests", "vendor/bin/phpunit", ("vendor/bin/phpunit", "phpunit.xml*")),
            Way("tests", "phpunit", ("phpunit.xml*",)),
        ),
    ),
)


MAKE = TableKind(
    "Make",
    ("GNUmakefile", "makefile", "Makefile"),
    tuple(Way("tests", f"make {target}", (), _make_target(target)) for target in ("test", "check")),
    no_tests="there is no target named test or check.",
)


def find_by_table(folder: Path, kinds: Iterable[TableKind] = KINDS) -> Iterator[FoundProject]:
    """The projects in one folder whose kinds are in the table."""
    for kind in kinds:
        evidence = next((path for mark in kind.marks for path in _files(folder, mark)), None)
        if evidence is None:
            continue
        steps: dict[str, str] = {}
        for way in kind.ways:
            if way.name not in steps and _is_there(folder, way, evidence):
                steps[way.name] = way.command
        hints = () if "tests" in steps else (f"{kind.name}: {kind.no_tests}",)
        covers = kind.covers is not None and re.search(kind.covers, read_text(evidence)) is not None
        yield FoundProject(ProjectKind(kind.name, evidence.name), tuple(steps.items()), hints, covers)


def is_marked(folder: Path) -> bool:
    """Whether a folder holds such a project."""
    names = [entry.name for entry in list_folder(folder) if entry.is_file()]
    return any(fnmatchcase(name, mark) for kind in KINDS for mark in kind.marks for name in names)


def _is_there(folder: Path, way: Way, evidence: Path) -> bool:
    found = [_files(folder, pattern) for pattern in way.files] or [iter([evidence])]
    if not all(any(True for _ in files) for files in found[:-1]):
        return False
    return any(
        not way.says or re.search(way.says, read_text(path))
        for _, path in zip(range(_MOST_READ), found[-1], strict=False)
    )


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files for a pattern; what cannot be looked at says nothing about the project."""
    try:
        yield from (path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return
