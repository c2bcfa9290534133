"""Two looks at a task's own diff before it is verified: does it stay with the task, and is it tested?"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from headgate.checks.diffs import read_files
from headgate.core.rules import Fail, Pass, Verdict
from headgate.core.testfiles import is_test
from headgate.core.words import path_words

_CODE = re.compile(
    r"\.(pyi?|[jt]sx?|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|exs?|lua|sh)", re.IGNORECASE
)
_ABOUT_TESTS = re.compile(
    r"\b(fail(s|ing|ed)?|broken|red|flaky)\b.{0,40}\btests?\b|\btests?\b.{0,40}\b(fail|pass)", re.IGNORECASE
)


@dataclass
class FileDiff:
    """One file's part of a diff: for each hunk, the lines taken out and the lines put in."""

    path: str
    hunks: list[tuple[list[str], list[str]]] = field(default_factory=list)


def read_diff(text: str) -> list[FileDiff]:
    """The files and hunks of a git-style diff."""
    return [FileDiff(part.path, [_sides(hunk) for hunk in part.hunks]) for part in read_files(text)]


def _sides(hunk: list[str]) -> tuple[list[str], list[str]]:
    return [line[1:] for line in hunk if line[0] == "-"], [line[1:] for line in hunk if line[0] == "+"]


def check_scope(diff: Sequence[FileDiff], named: Iterable[str]) -> Verdict:
    """Whether the diff stays with the task. `named`: the task's text and the plan, where files are named."""
    texts = [text for text in named if text]
    blank = [file.path for file in diff if any(_same_but_for_space(*hunk) for hunk in file.hunks)]
    if blank:
        return Fail(
            "diff_scope", f"only white space or layout was changed in parts of {_list(blank)}: take that back"
        )
    mentions = {word for text in texts for word in path_words(text)}
    if not mentions:
        return Pass()
    strays = [file.path for file in diff if not _is_named(file.path, mentions) and not is_test(file.path)]
    if strays:
        return Fail(
            "diff_scope", f"no step of the plan names {_list(strays)}: is that change needed for the task?"
        )
    return Pass()


def check_tests(diff: Sequence[FileDiff], goal: str, repository_has_tests: bool) -> Verdict:
    """Whether changed behaviour has a test; silent where the project has none or the task is about one."""
    code = [file.path for file in diff if _CODE.fullmatch(PurePosixPath(file.path).suffix)]
    changed = [path for path in code if not is_test(path)]
    if not changed or not repository_has_tests or any(is_test(file.path) for file in diff):
        return Pass()
    if _ABOUT_TESTS.search(goal):
        return Pass()
    return Fail(
        "tests_touched", f"{_list(changed)} changed, and no test did: add or change one that shows it"
    )


def _same_but_for_space(old: list[str], new: list[str]) -> bool:
    return bool(old) and bool(new) and "".join("".join(old).split()) == "".join("".join(new).split())


def _is_named(path: str, mentions: set[str]) -> bool:
    name = PurePosixPath(path).name
    return any(
        word in (path, name) or word.endswith("/" + name) or path.endswith("/" + word) for word in mentions
    )


def _list(paths: Sequence[str]) -> str:
    unique = list(dict.fromkeys(paths))
    rest = f" and {len(unique) - 5} more" if len(unique) > 5 else ""
    return ", ".join(unique[:5]) + rest
