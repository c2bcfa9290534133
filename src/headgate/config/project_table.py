"""Kinds of projects whose steps follow from which files are there: a table. Nothing is run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from headgate.config.projects import FoundProject, ProjectKind, list_folder, read_text

_MOST_READ = 50


@dataclass(frozen=True, slots=True)
class Way:
    """A step, if the folder has files for each of these patterns, and one for the last has this in it."""

    name: str
    command: str
    files: tuple[str, ...]
    says: str = ""


@dataclass(frozen=True, slots=True)
class TableKind:
    """A kind of project: what shows it, and its steps. Of several ways to the same step the first counts."""

    name: str
    marks: tuple[str, ...]
    ways: tuple[Way, ...]
    covers_below: bool = False


_RAKE_TEST = r"\bTestTask\b|\btask\b[ (]*[:'\"]?test\b"
_ALL_RUBY = """ruby -Ilib -Itest -e 'Dir["./test/**/{test_*,*_test}.rb"].each { |file| require file }'"""
_DOTNET = ("*.csproj", "*.fsproj", "*.vbproj")
_DOTNET_TESTS = r"Microsoft\.NET\.Test\.Sdk|(?i:xunit|nunit|mstest)"

KINDS = (
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
        covers_below=True,
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


def find_by_table(folder: Path) -> Iterator[FoundProject]:
    """The projects in one folder whose kinds are in the table."""
    for kind in KINDS:
        mark = next((path.name for mark in kind.marks for path in _files(folder, mark)), None)
        if mark is None:
            continue
        steps: dict[str, str] = {}
        for way in kind.ways:
            if way.name not in steps and _is_there(folder, way):
                steps[way.name] = way.command
        hints = () if "tests" in steps else (f"{kind.name}: no tests were found.",)
        yield FoundProject(ProjectKind(kind.name, mark), tuple(steps.items()), hints, kind.covers_below)


def is_marked(folder: Path) -> bool:
    """Whether a folder holds such a project."""
    names = [entry.name for entry in list_folder(folder) if entry.is_file()]
    return any(fnmatchcase(name, mark) for kind in KINDS for mark in kind.marks for name in names)


def _is_there(folder: Path, way: Way) -> bool:
    found = [_files(folder, pattern) for pattern in way.files]
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
