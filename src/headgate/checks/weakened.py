"""A look at a task's own diff: were tests removed, skipped or made to assert less?

It goes by lines and knows no language, so it asks only where it is fairly sure: what moved or was renamed is
not gone, what is new cannot be weaker than before.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from headgate.checks.testdiff import FileLines, Line, counted, defined, owner, read_test_diff
from headgate.core.pathtext import show_path
from headgate.core.rules import Fail, Pass, Verdict
from headgate.core.testfiles import is_code, is_runner_setting, is_task_file, is_test
from headgate.core.testsettings import has_test_settings

_ASKED_FOR = re.compile(
    r"\b(remov|delet|drop|clean|skip|disabl|quarantin|xfail|rewrit|merg|consolidat|obsolete)\w*\b.{0,80}"
    r"\b(tests?|specs?)\b",
    re.IGNORECASE | re.DOTALL,
)
_ABOUT_EXPECTATIONS = re.compile(
    r"\b(tests?|specs?|expect\w*|assert\w*|snapshots?|fixtures?)\b", re.IGNORECASE
)
_TABLE = re.compile(r"parametrize|\.each\b|subTest|t\.Run\(|@ValueSource|@CsvSource|#\[case|TestCase\(")
_SETTING = re.compile(
    r"--ignore|--deselect|--collect-only|--passWithNoTests|-k\s*[\"']?not\b|\bcollect_ignore"
    r"|\bnorecursedirs\b|PathIgnorePatterns|\bpytest_(?:collection_modifyitems|ignore_collect|runtest_\w+)\b"
    r"|\bpytest_(?:pycollect_\w+|sessionfinish|report_\w+)\b|\"test\"\s*:\s*\"(?:true|exit 0|echo\b|:)"
    r"|skipTests|maven\.test\.skip|\bautotests\s*=\s*false|^\s*test\s*=\s*false|^\s*harness\s*=\s*false"
)
_MOST = 5
_SAME_SUBJECT = 12
"""Characters at the start of two assertions that make them ones about the same thing."""


def check_weakened(diff: str, goal: str) -> Verdict:
    """Whether the tests still say as much as before; silent where the task is to remove some."""
    files = read_test_diff(diff)
    if _ASKED_FOR.search(goal):
        return Pass()
    found = list(dict.fromkeys(_findings(files)))
    if not found and not _ABOUT_EXPECTATIONS.search(goal):
        found = list(_fitted_expectations(files))
    if not found:
        return Pass()
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    listed = "; ".join([*found[:_MOST], *more])
    return Fail(
        "tests_weakened", f"tests were weakened ({listed}): restore them, or say why the change is right"
    )


def _findings(files: Sequence[FileLines]) -> Iterator[str]:
    old = counted(files, "-")
    lost = old - counted(files, "+")
    put_in = Counter(line.text.strip() for file in files for line in file.lines("+"))
    for file in files:
        where = show_path(file.path)
        yield from (f"{where}: {what}" for what in _weaker_settings(file))
        if not file.has_tests or file.is_new:
            continue
        if file.is_deleted:
            if _is_gone(file, files, lost):
                yield f"{where} deleted"
            continue
        for hunk in file.hunks:
            yield from (f"{where}: {name} removed" for name in _removed(hunk, old, lost))
            yield from (f"{where}: {what}" for what in _skips(hunk, old))
            yield from (f"{where}: {what}" for what in _weaker_assertions(hunk, lost, put_in))


def _is_gone(file: FileLines, files: Sequence[FileLines], lost: Counter[str]) -> bool:
    """Whether a deleted file takes tests with it, and not just its old name."""
    tests = [name for hunk in file.hunks for name in defined(hunk, "-")]
    if tests:
        return any(lost[name] for name in tests)
    name = file.path.rpartition("/")[2]
    moved = any(other.is_new and other.path.rpartition("/")[2] == name for other in files)
    return is_test(file.path) and is_code(file.path) and not moved and any(file.lines("-"))


def _removed(hunk: list[Line], old: Counter[str], lost: Counter[str]) -> list[str]:
    """The tests that a hunk takes out, less as many as it puts in: those are rewritten or renamed."""
    if any(line.sign == "+" and _TABLE.search(line.text) for line in hunk):
        return []  # several tests were made one, with a table of cases
    gone = [name for name in defined(hunk, "-") if lost[name]]
    fresh = [name for name in defined(hunk, "+") if name not in old]
    return gone[len(fresh) :]


def _skips(hunk: list[Line], old: Counter[str]) -> Iterator[str]:
    """Marks that keep a test from being run, on a test that there was before."""
    before = Counter(line.text.strip() for line in hunk if line.sign == "-" and line.skips)
    for index, line in enumerate(hunk):
        if line.sign != "+" or not line.skips:
            continue
        if before[line.text.strip()]:
            before[line.text.strip()] -= 1
            continue
        sign, name = owner(hunk, index)
        if sign == "+" and name not in old and ".only" not in line.text:
            continue  # a new test may be skipped where it cannot work
        yield f"{name or 'a test'} skipped"


def _weaker_assertions(hunk: list[Line], lost: Counter[str], put_in: Counter[str]) -> Iterator[str]:
    gone = [
        line
        for index, line in enumerate(hunk)
        if line.sign == "-"
        and line.asserts
        and not line.asserts_nothing
        and not put_in[line.text.strip()]
        and not _goes_with_its_test(hunk, index, lost)
    ]
    taken_out = {line.text.strip() for line in hunk if line.sign == "-"}
    fresh = [
        line for line in hunk if line.sign == "+" and line.asserts and line.text.strip() not in taken_out
    ]
    telling = [line for line in fresh if not line.asserts_nothing]
    if not gone:
        return
    if len(telling) < len(fresh):
        yield "an assertion replaced by one that always holds"
    elif not fresh:
        yield "an assertion removed" if len(gone) == 1 else f"{len(gone)} assertions removed"
    elif sum(line.asserts_exactly for line in gone) == len(gone) and not any(
        line.asserts_exactly for line in fresh
    ):
        yield "an exact assertion replaced by a weaker one"


def _goes_with_its_test(hunk: list[Line], index: int, lost: Counter[str]) -> bool:
    sign, name = owner(hunk, index)
    return sign == "-" and bool(lost[name])


def _weaker_settings(file: FileLines) -> Iterator[str]:
    """What keeps tests from being collected or from counting."""
    if not (is_runner_setting(file.path) or has_test_settings(file.path) or is_task_file(file.path)):
        return
    before = Counter(found for line in file.lines("-") for found in _SETTING.findall(line.text))
    after = Counter(
        found for line in file.lines("+") if line.is_code for found in _SETTING.findall(line.text)
    )
    yield from (f"{found.strip()} added" for found in after - before)


def _fitted_expectations(files: Sequence[FileLines]) -> Iterator[str]:
    """Expected values that were changed while no code was: the tests were made to fit."""
    if any(is_code(file.path) and not is_test(file.path) for file in files):
        return
    for file in files:
        for hunk in file.hunks if file.has_tests and not file.is_new else ():
            old = [line.text.strip() for line in hunk if line.sign == "-" and line.asserts_exactly]
            new = [line.text.strip() for line in hunk if line.sign == "+" and line.asserts_exactly]
            for before, after in zip(old, new, strict=False):
                if before != after and before[:_SAME_SUBJECT] == after[:_SAME_SUBJECT]:
                    yield f"{show_path(file.path)}: only expected values changed, and no code"
                    return
