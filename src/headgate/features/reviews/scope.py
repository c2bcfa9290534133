"""The checks `diff_scope` and `tests_touched`: does a task's diff stay with the task, and is it tested?"""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from headgate.checks import Check, Facts
from headgate.core import CheckSpec, Fail, Pass, Verdict, path_words
from headgate.first_use import regex
from headgate.reading import DiffHunk, FileDiff, TaskDiff, is_test, read_git_diff, same_but_for_layout

MOST_HUNKS = 200
"""So many hunks are judged: each means that its file is parsed."""
_CODE = regex(
    r"\.(pyi?|[jt]sx?|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|exs?|lua|sh)", re.IGNORECASE
)
_ABOUT_TESTS = regex(
    r"\b(fail(s|ing|ed)?|broken|red|flaky)\b.{0,40}\btests?\b|\btests?\b.{0,40}\b(fail|pass)", re.IGNORECASE
)


def check_scope(diff: TaskDiff, named: Iterable[str]) -> Verdict:
    """Whether the diff stays with the task. `named`: the task's text and the plan, where files are named."""
    files = _own_files(diff)
    if blank := _laid_out_anew(diff, files):
        return Fail("diff_scope", f"parts of {_list(blank)} changed only in whitespace or layout: undo that")
    mentions = {word for text in named for word in path_words(text)}
    changed = {file.path for file in files}
    meant = _files_meant(mentions, diff.known | changed)
    # A task that names its failing test does not say where the fault is.
    if all(is_test(path) for path in meant):
        return Pass()
    strays = [file.path for file in files if file.path not in meant and not is_test(file.path)]
    if strays:
        return Fail(
            "diff_scope",
            f"no step of the plan names {_list(strays)}: undo that change unless the task needs it",
        )
    return Pass()


def check_tests(diff: TaskDiff, goal: str) -> Verdict:
    """Whether changed behaviour has a test; silent where the project has none or the task is about one."""
    paths = [file.path for file in _own_files(diff)]
    code = [path for path in paths if _CODE.fullmatch(PurePosixPath(path).suffix)]
    changed = [path for path in code if not is_test(path)]
    if not changed or not any(map(is_test, diff.known)) or any(map(is_test, paths)):
        return Pass()
    if _ABOUT_TESTS.search(goal):
        return Pass()
    return Fail(
        "tests_touched", f"{_list(changed)} changed, but no test did: add or change a test that covers it"
    )


async def _judge_scope(facts: Facts, argument: int) -> Verdict:
    plan = [f"{item.description} {item.goal}" for item in facts.plan]
    return check_scope(await facts.diff(), [*plan, facts.text] if plan else [])


async def _judge_tests(facts: Facts, argument: int) -> Verdict:
    """A verification step that was red at the start and is green now is the test."""
    verdict = check_tests(await facts.diff(), facts.request)
    if isinstance(verdict, Fail) and not facts.was_told and await facts.was_red() is not False:
        return Pass()
    return verdict


DIFF_SCOPE = Check(
    CheckSpec(
        "diff_scope",
        "The diff stays within the task; otherwise it goes back to the model once.",
        place="review",
        order=70,
    ),
    _judge_scope,
)
TESTS_TOUCHED = Check(
    CheckSpec(
        "tests_touched",
        "Changed behaviour has a test; otherwise it goes back to the model once.",
        place="review",
        order=70,
        after_verification=True,
        prompt="review_tests",
    ),
    _judge_tests,
    applies=lambda facts: not facts.tests_closed,
)


def _own_files(diff: TaskDiff) -> list[FileDiff]:
    return [file for file in read_git_diff(diff.text) if file.path not in diff.by_verification]


def _laid_out_anew(diff: TaskDiff, files: Sequence[FileDiff]) -> list[str]:
    """The files with a hunk that changes nothing but layout: without it, the file would mean the same."""
    hunks = [
        (file.path, hunk)
        for file in files
        for hunk in file.hunks
        if {"-", "+"} <= {sign for sign, _ in hunk.lines}
    ]
    return [
        path
        for path, hunk in hunks[:MOST_HUNKS]
        if (after := diff.versions.get(path, ("", ""))[1])
        and (reverted := _without(hunk, after)) is not None
        and same_but_for_layout(path, reverted, after)
    ]


def _without(hunk: DiffHunk, after: str) -> str | None:
    """The new file with one hunk taken back; None if the hunk is not found in it."""
    lines = after.split("\n")
    new = [text for sign, text in hunk.lines if sign != "-"]
    old = [text for sign, text in hunk.lines if sign != "+"]
    first = hunk.place.new_start - 1 if hunk.place else -1
    if lines[first : first + len(new)] != new:
        return None
    return "\n".join([*lines[:first], *old, *lines[first + len(new) :]])


def _files_meant(mentions: Iterable[str], paths: Iterable[str]) -> set[str]:
    """The files that words name: by the whole path or by its end, from any directory above or below."""
    by_end: dict[str, list[str]] = {}
    for path in paths:
        for end in _ends(path):
            by_end.setdefault(end, []).append(path)
    every = set(paths)
    meant: set[str] = set()
    for word in mentions:
        word = word.removeprefix("./")
        found = by_end.get(word) or [end for end in _ends(word)[1:] if end in every]
        # A directory that is wrong does not make it another file.
        meant.update(found or by_end.get(word.rpartition("/")[2], ()))
    return meant


def _ends(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[index:]) for index in range(len(parts))]


def _list(paths: Sequence[str]) -> str:
    unique = list(dict.fromkeys(paths))
    rest = f" and {len(unique) - 5} more" if len(unique) > 5 else ""
    return ", ".join(unique[:5]) + rest
