"""How a project is built and tested, as data: how one test is run, what is missing, and what fails."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from headgate.core import CHARS_PER_CODE_TOKEN, cut_text
from headgate.features.scouts.tool_versions import NeededTool, names_packages
from headgate.first_use import dataclass, regex
from headgate.reading import FailedTest, render_failures, split_commands, word_set

# How a single test is run.


@dataclass(frozen=True, slots=True)
class _Framework:
    """How a test framework is called."""

    name: str
    words: str
    """The program, or the option, that is it: a pattern."""
    called: str
    """What calls it, where the project's own command does not show that."""
    one: str
    """What follows to have it run one test."""

    def calling(self, command: str) -> str | None:
        """The beginning of a command that calls it, up to its name."""
        found = re.match(rf"(?:.*?[ /])?(?:{self.words})(?= |$)", command)
        return found[0] if found else None


_FRAMEWORKS = (
    _Framework("pytest", r"pytest|py\.test", "pytest", "FILE::TEST"),
    _Framework("unittest", "unittest", "python3 -m unittest", "MODULE.CLASS.TEST"),
    _Framework("Vitest", "vitest", "npx vitest", "run FILE -t TEST"),
    _Framework("Jest", "jest", "npx jest", "FILE -t TEST"),
    _Framework("Mocha", "mocha", "npx mocha", "FILE -g TEST"),
    _Framework(
        "node:test", r"node(?: -\S{1,60}){0,8} --test", "node --test", "--test-name-pattern TEST FILE"
    ),
    _Framework("go test", "go", "go", "test ./PACKAGE -run '^TEST$'"),
    _Framework("cargo test", "cargo", "cargo", "test TEST"),
    _Framework("Maven", "mvnw?", "mvn", "test -Dtest=CLASS#TEST"),
    _Framework("Gradle", "gradlew?", "gradle", "test --tests CLASS.TEST"),
    _Framework("CTest", "ctest", "ctest", "-R TEST --output-on-failure"),
    _Framework("RSpec", "rspec", "rspec", "FILE:LINE"),
    _Framework("PHPUnit", "phpunit", "phpunit", "--filter TEST FILE"),
    _Framework("dotnet test", "dotnet", "dotnet", "test --filter TEST"),
)
_TEST_SCRIPT = regex(r'"test[\w:-]*"\s*:\s*"([^"\n]*)"')


def find_framework(commands: Iterable[str], package: str = "") -> tuple[str, str]:
    """The framework that commands run tests with, and how to run one test with it; empty if unknown.

    `package` is the text of package.json, whose test script says what `npm test` runs.
    """
    called = [" ".join(part.words) for command in commands for part in split_commands(command)]
    for framework in _FRAMEWORKS:
        if caller := next(filter(None, map(framework.calling, called)), None):
            return framework.name, f"{caller} {framework.one}"
    scripts = _TEST_SCRIPT.findall(package)
    for framework in _FRAMEWORKS:
        if any(map(framework.calling, scripts)):
            return framework.name, f"{framework.called} {framework.one}"
    return "", ""


# What is told.


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the environment that is not as it should be."""

    severity: Literal["blocking", "warning"]
    sentence: str


@dataclass(frozen=True, slots=True)
class FailureClues:
    """Where a failure may come from, and whether it is one."""

    places: tuple[str, ...] = ()
    """`file:line` that the output names, the innermost first."""
    suspects: tuple[str, ...] = ()
    """`file:line in function`: lines that failing tests run, the most suspect first."""
    flaky: tuple[str, ...] = ()
    """Tests that failed and then passed without a change."""

    def render(self) -> list[str]:
        """A line of text for each, where there is one."""
        told = []
        if self.places:
            told.append(f"Places that the failures name: {', '.join(self.places)}")
        if self.suspects:
            told.append(f"Suspect, by the lines that failing tests run: {', '.join(self.suspects)}")
        if self.flaky:
            names = ", ".join(self.flaky)
            told.append(f"Run again without a change, these tests passed, so they may be flaky: {names}")
        return told


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """What the build and test scout found out."""

    kinds: tuple[tuple[str, str], ...] = ()
    """Kinds of projects, each with the file that shows it."""
    steps: tuple[tuple[str, str], ...] = ()
    """The verification steps: names and commands."""
    folder: str = ""
    """Where they run, unless that is the repository itself."""
    framework: str = ""
    one_test: str = ""
    versions: tuple[tuple[NeededTool, str], ...] = ()
    """What is needed, and the version that is there; empty if the program is missing."""
    problems: tuple[Problem, ...] = ()
    failing: tuple[FailedTest, ...] = ()
    """What fails now."""
    red_before: tuple[str, ...] = ()
    """Steps that failed before the task."""
    clues: FailureClues = FailureClues()
    said: str = ""
    """The end of what the failing step printed."""
    passes: bool = False
    """The steps were run, and they pass."""
    has_run: bool = True
    """They were run in this task, or it was tried."""
    is_later: bool = False
    """They were run after the task had begun to change something."""


def environment_problems(
    commands: Sequence[str],
    versions: Iterable[tuple[NeededTool, str]],
    has: Callable[[str], bool],
    exists: Callable[[str], bool],
    package: str = "",
) -> tuple[Problem, ...]:
    """What keeps the steps from running, or may. `has` says whether a program is there.

    `package` is the text of package.json.
    """
    found: list[Problem] = []
    programs = dict.fromkeys(
        part.program for command in commands for part in split_commands(command) if part.program
    )
    for program in programs:
        if not re.fullmatch(r"[\w.+-]+", program) or program in _SHELL_WORDS:
            continue
        if not has(program):
            found.append(Problem("blocking", f"{program}, which a verification step runs, is not installed."))
    for tool, present in versions:
        if not present:
            if tool.program not in programs:
                found.append(
                    Problem("warning", f"{tool.said_by} asks for {tool.program}, which is not installed.")
                )
        elif tool.accepts(present) is False:
            said = f"{tool.said_by} asks for {tool.program} {tool.wanted}, and {present} is installed."
            found.append(Problem("warning", said))
    node = {"npm", "npx", "yarn", "pnpm"} & set(programs)
    if node and names_packages(package) and not exists("node_modules"):
        found.append(
            Problem("warning", "package.json names packages and there is no node_modules: install them.")
        )
    return tuple(found)


_SHELL_WORDS = word_set(". : [ cd echo exit export false for if set source test true while")


def render_build(facts: BuildFacts, tokens: int) -> str:
    """The facts as text for a model. What fails comes first; what does not fit is cut."""
    parts = list(_parts(facts))
    room = int(tokens * CHARS_PER_CODE_TOKEN)
    text = "\n".join(parts)
    return text if len(text) <= room else cut_text(text, room, "the facts")


def _parts(facts: BuildFacts) -> Iterator[str]:
    when = "in the latest run" if facts.is_later else "before the task"
    if facts.failing:
        yield f"Failing {when}:\n{render_failures(facts.failing[:10])}"
    elif facts.said:
        yield f"The verification fails {when}."
    yield from facts.clues.render()
    if facts.said:
        yield f"Output:\n```\n{facts.said}\n```"
    if facts.passes:
        yield "The verification passes before the task."
    if facts.red_before and not facts.failing:
        yield f"Steps that failed before the task: {', '.join(facts.red_before)}"
    for severity in ("blocking", "warning"):
        for problem in facts.problems:
            if problem.severity == severity:
                yield f"Problem ({severity}): {problem.sentence}"
    if facts.kinds:
        yield f"Project: {', '.join(f'{name} ({file})' for name, file in facts.kinds)}"
    where = f" (in {facts.folder})" if facts.folder else ""
    steps = "; ".join(f"{name}: {command}" for name, command in facts.steps)
    then = "" if facts.has_run else " (not run yet)"
    yield f"Verification{where}: {steps}{then}" if steps else "Verification: no steps are configured"
    if facts.one_test:
        yield f"One test ({facts.framework}): {facts.one_test}"
    told = [
        f"{tool.program} {version} (wanted: {tool.wanted})" for tool, version in facts.versions if version
    ]
    if told:
        yield f"Versions: {', '.join(told)}"
