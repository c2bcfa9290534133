"""Command lines: their simple commands and words, and what they give to a test runner."""

import re
from collections.abc import Sequence
from dataclasses import field

from headgate.first_use import dataclass, regex

_ASSIGNMENT = regex(r"[A-Za-z_]\w*\+?=")
_WRAPPERS = regex(
    r"!|builtin|command|do|doas|else|env|exec|if|ionice|nice|nohup|setsid|stdbuf|sudo|then|time|timeout|until"
    r"|while|xargs"
)
_OPERATORS = "\n;|&(){}`"


@dataclass(slots=True)
class Command:
    """One simple command."""

    words: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Files named behind `>`, `>>`, `>|`, `&>` or `<>`."""
    read: list[str] = field(default_factory=list)
    """Files named behind `<`."""

    @property
    def program(self) -> str:
        return next(iter(self._called()), "")

    @property
    def arguments(self) -> list[str]:
        return self._called()[1:]

    def _called(self) -> list[str]:
        """The words from the program on: assignments, wrappers and the wrappers' options are skipped."""
        wrapped = False
        for index, word in enumerate(self.words):
            if _ASSIGNMENT.match(word):
                continue
            if _WRAPPERS.fullmatch(word):
                wrapped = True
            elif not (wrapped and (word.startswith("-") or word[:1].isdigit())):
                return self.words[index:]
        return []


def split_commands(text: str) -> list[Command]:
    """The simple commands of a command line, those in substitutions and subshells included."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0
        self.commands = [Command()]
        self.word: str | None = None
        self.redirect = ""

    def read(self) -> list[Command]:
        while self.index < len(self.text):
            self._step()
        self._end_command()
        return [command for command in self.commands if command.words or command.written or command.read]

    def _step(self) -> None:
        char = self._take()
        if char == "\\":
            following = self._take()
            if following != "\n":
                self._add(following)
        elif char == "'":
            end = self.text.find("'", self.index)
            end = len(self.text) if end < 0 else end
            self._add(self.text[self.index : end])
            self.index = end + 1
        elif char == '"':
            self._double_quoted()
        elif char in "<>":
            self._begin_redirection(char)
        elif char == "&" and self._peek() == ">":
            self._end_word()
            self._begin_redirection(self._take())
        elif char == "#" and self.word is None:
            end = self.text.find("\n", self.index)
            self.index = len(self.text) if end < 0 else end
        elif char in _OPERATORS and not (char in "{}" and self.word is not None):
            self._end_command()
        elif char.isspace():
            self._end_word()
        elif char != "$" or self._peek() != "(":
            self._add(char)

    def _double_quoted(self) -> None:
        self._add("")
        start = self.index
        while self.index < len(self.text):
            char = self._take()
            if char == '"':
                break
            if char == "\\" and self._peek() in '"\\$`\n':
                self._add(self._take())
            else:
                self._add(char)
        inner = self.text[start : self.index - 1]
        for found in re.findall(r"\$\(([^()]*)\)|`([^`]*)`", inner):
            self.commands[:0] = split_commands(found[0] or found[1])

    def _begin_redirection(self, char: str) -> None:
        if self.word is not None and self.word.isdigit():
            self.word = None  # the descriptor in `2>`
        self._end_word()
        operator = char
        while self._peek() in ("<", ">", "|", "&", "-"):
            operator += self._take()
        self.redirect = operator

    def _take(self) -> str:
        char = self.text[self.index : self.index + 1]
        self.index += 1
        return char

    def _peek(self) -> str:
        return self.text[self.index : self.index + 1] or "\0"

    def _add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def _end_word(self) -> None:
        if self.word is None:
            return
        command = self.commands[-1]
        if ">" in self.redirect:
            command.written.append(self.word)
        elif self.redirect == "<":
            command.read.append(self.word)
        elif not self.redirect.startswith("<<"):
            command.words.append(self.word)
        self.word, self.redirect = None, ""

    def _end_command(self) -> None:
        self._end_word()
        self.redirect = ""
        self.commands.append(Command())


# What a command line gives to a test runner: files, folders, patterns and modules.


def word_set(words: str) -> frozenset[str]:
    """A set of words that are written one after the other."""
    return frozenset(words.split())


_PYTHON = regex(r"(?:python|pypy)[\d.]*")
_LAUNCHERS = word_set(
    """
    uv uvx run exec x dlx npm npx pnpm yarn bunx bun poetry pipenv hatch pdm rye coverage xvfb-run
    node bundle php ruby perl cross-env dotenv composer
    """
)


@dataclass(frozen=True, slots=True)
class _Runner:
    """What is known about the command line of a test runner: words, separated by spaces."""

    needs: str = ""
    """Without this word behind it, the program is no test runner."""
    commands: str = ""
    """Words that may come before what is named."""
    default: str = ""
    """Where it looks if nothing is named."""
    naming: str = ""
    """Options with a file or folder of tests."""
    patterns: str = ""
    """Options with a pattern of file names."""
    valued: str = ""
    """Options with any other value, besides _LONG_VALUED."""
    by_shape: bool = False
    """Its tests lie beside the code, or in files of one fixed shape: what it names is no test."""


_OTHERS = word_set(
    """
    nosetests nose nose2 trial ward green stestr ava tap tape jasmine uvu karma minitest pest paratest busted
    cram shellspec lit
    """
)
_RUNNERS = {
    **dict.fromkeys(_OTHERS, _Runner()),
    **dict.fromkeys(("deno", "bun", "mix", "rails"), _Runner("test")),
    **dict.fromkeys(("go", "cargo", "swift", "dart", "flutter", "manage.py"), _Runner("test", by_shape=True)),
    "behave": _Runner(default="features", valued="-D -t -f -o -n -i -e"),
    "bats": _Runner(valued="-f -F -j -o"),
    "crystal": _Runner("spec", default="spec"),
    "cucumber": _Runner(default="features"),
    "cypress": _Runner(commands="run", naming="--spec", valued="-b -c -C -P --project --browser"),
    "jest": _Runner(
        naming="--testPathPattern --testPathPatterns --runTestsByPath",
        valued="-c -t -w -i --rootDir --roots --projects --selectProjects",
    ),
    "mocha": _Runner(naming="--spec --file", valued="-r -R -g -f -t -u -n --extension --package --opts"),
    "node": _Runner("--test", valued="-r --require --import --loader"),
    "phpunit": _Runner(valued="-c -d"),
    "playwright": _Runner(commands="test", valued="-c -g -j --project"),
    "prove": _Runner(default="t", valued="-I -j -e"),
    "pytest": _Runner(naming="--rootdir", valued="-k -m -p -c -o -n -W -r"),
    "robot": _Runner(valued="-d -v -i -e -t -s -L -P -o -l -N -V -A"),
    "rspec": _Runner(default="spec", patterns="-P --pattern", valued="-I -r -e -f -o -t"),
    "unittest": _Runner(
        commands="discover",
        naming="-s --start-directory",
        patterns="-p --pattern",
        valued="-t --top-level-directory -k",
    ),
    "vitest": _Runner(commands="run watch dev", naming="--dir", valued="-c -t -r --root --project"),
}
_ALIASES = {"py.test": "pytest", "pytest-3": "pytest", "_mocha": "mocha", "pabot": "robot"}
_LONG_VALUED = word_set(
    """
    --cov --cov-config --cov-report --ignore --ignore-glob --deselect --confcutdir --basetemp
    --junitxml --junit-xml --html --log-file --import-mode --maxfail --durations --timeout --tb
    --config --config-file --require --reporter --reporters --outputFile --output --outputdir
    --coverageDirectory --bootstrap --collectCoverageFrom --filter --testsuite --group --tags
    --format --out --setupFiles --testNamePattern --grep --variable --include --exclude
    --test-timeout --num-workers --seed --order --options
    """
)
_SOURCES = frozenset(
    {"--doctest-modules", "--doctest-glob", "--findRelatedTests", "related", "--pyargs", "--listTests"}
)
"""With one of these, what is named may be the code itself."""
UNITTEST_PATTERN = "test*.py"
"""What unittest looks for when it is not given another pattern."""


@dataclass(frozen=True, slots=True)
class RunnerCall:
    """What one call of a test runner names, as words of the command line."""

    runner: str
    paths: tuple[str, ...] = ()
    """Files, folders and globs."""
    modules: tuple[str, ...] = ()
    """Python modules, with what may follow them: `checks.c_add.Case.test_it`."""
    patterns: tuple[str, ...] = ()
    """Patterns of file names, for what is below the paths."""


def read_runner(words: Sequence[str]) -> RunnerCall | None:
    """What a simple command gives to the test runner that it calls; None if it calls none."""
    place = find_runner(words)
    if place is None:
        return None
    kind = _name_of(words[place])
    runner, arguments = _RUNNERS[kind], words[place + 1 :]
    if runner.by_shape or not _SOURCES.isdisjoint(word.partition("=")[0] for word in arguments):
        return RunnerCall(kind)
    paths, patterns, positional = _read_arguments(runner, arguments)
    if kind == "unittest":
        bare = not positional and not paths and not patterns
        return _unittest(paths, patterns, positional, discovers=bare or "discover" in arguments)
    named = [*paths, *(word.partition("::")[0] for word in positional)] or [runner.default]
    return RunnerCall(kind, tuple(word for word in named if word), (), tuple(patterns))


def _read_arguments(runner: _Runner, arguments: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """What options name, the patterns that options give, and the words that are no option's."""
    paths: list[str] = []
    patterns: list[str] = []
    positional: list[str] = []
    waiting: list[str] | None = None
    skipping = False
    for word in arguments:
        option, equals, value = word.partition("=")
        if waiting is not None:
            waiting.append(word)
            waiting = None
        elif skipping:
            skipping = False
        elif not word.startswith("-"):
            if positional or word not in (runner.needs, *runner.commands.split()):
                positional.append(word)
        elif option in (*runner.naming.split(), *runner.patterns.split()):
            target = paths if option in runner.naming.split() else patterns
            waiting = None if equals else target
            target += [value] if equals else []
        else:
            skipping = not equals and (option in runner.valued.split() or option in _LONG_VALUED)
    return paths, patterns, positional


def _unittest(paths: list[str], patterns: list[str], positional: list[str], *, discovers: bool) -> RunnerCall:
    if discovers:
        start = [*paths, *positional[:1]] or ["."]
        named = [*patterns, *positional[1:2]] or [UNITTEST_PATTERN]
        return RunnerCall("unittest", tuple(start), (), tuple(named))
    files = [word for word in positional if "/" in word or word.endswith(".py")]
    return RunnerCall("unittest", tuple(files), tuple(word for word in positional if word not in files))


def find_runner(words: Sequence[str]) -> int | None:
    """Which word of a command is the test runner that it calls; None if it calls none."""
    for index, word in enumerate(words):
        runner = _RUNNERS.get(_name_of(word))
        if runner and runner.needs:
            if runner.needs in words[index + 1 : index + 4]:
                return index
        elif runner:
            return index if index == 0 or words[index - 1] == "-m" else _after_launchers(words, index)
        if index == 0 and not _launches(_name_of(word)):
            return None
    return None


def _after_launchers(words: Sequence[str], index: int) -> int | None:
    """The index, if all before it only starts what comes behind: `uv run --extra dev pytest`."""
    before = [
        word
        for previous, word in zip(("", *words), words[:index], strict=False)
        if not word.startswith("-") and not previous.startswith("-")
    ]
    return index if all(_launches(_name_of(word)) for word in before) else None


def _launches(name: str) -> bool:
    return name in _LAUNCHERS or _PYTHON.fullmatch(name) is not None or name == "manage.py"


def _name_of(word: str) -> str:
    """The usual name of a program."""
    name = word.rpartition("/")[2].removesuffix(".exe").removesuffix(".js").removesuffix(".cmd")
    return _ALIASES.get(name, name)
