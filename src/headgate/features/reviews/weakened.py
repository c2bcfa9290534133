"""The check `tests_weakened`: does a task's own diff remove or skip tests, or make them assert less?

It goes by lines and knows no language, so it asks only where it is fairly sure: what moved or was renamed is
not gone, what is new cannot be weaker than before.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from headgate.checks import Check, Facts
from headgate.core import CheckSpec, Fail, Pass, Verdict, show_path
from headgate.first_use import dataclass, regex
from headgate.reading import (
    has_test_settings,
    is_code,
    is_runner_setting,
    is_task_file,
    is_test,
    is_tool_setting,
    read_git_diff,
)

# A task's diff as far as it is about tests: which lines define a test, skip one, or assert something.


_DEFINITION = regex(
    r"^\s*(?:async\s+)?def\s+(?:self\.)?(test\w*)"
    r"|^\s*(?:public\s+)?function\s+(test\w+)\s*\("
    r"|^func\s+(?:\([^)]*\)\s*)?((?:Test|Fuzz|Example)\w*)\s*\("
    r"|^\s*[xf]?(?:it|test|specify|scenario)\b[\w.]*\s*\(?\s*(?:\([^()]*\)\s*\(\s*)?[\"'`](.+?)[\"'`]"
    r"|^\s*(?:TEST|TEST_F|TEST_P|TEST_CASE)\s*\(\s*(.+?)\s*\)"
)
_MARK = regex(
    r"^\s*(?:@(?:Test|ParameterizedTest|RepeatedTest)\b|#\[(?:\w+::)*test\b|\[(?:Test|Fact|Theory|TestMethod)\b)"
)
"""In some languages a mark makes the next function a test."""
_MARKED = regex(r"\b(?:fn|fun|void|Task|def)\s+[`\"]?(\w+)")
_COMMENT = regex(r"^\s*(#(?!\[)|//|/\*|\*|--)")
_SKIP = regex(
    r"pytest\.mark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail)\(|\bunittest\.(?:skip|expectedFailure)"
    r"|^\s*@(?:skip|skipIf|skipUnless|expectedFailure|Disabled|Ignore)\b|\.skipTest\(|\bSkipTest\b"
    r"|\b__test__\s*=\s*False"
    r"|\b(?:it|test|describe|context|suite|specify)\.(?:skip|only|todo|failing|fixme)\b"
    r"|^\s*(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe)\b|\bthis\.skip\(\)"
    r"|\bt\.Skip(?:f|Now)?\(|^\s*#\[ignore\b|\[Ignore\b|\bSkip\s*=\s*\"|@tag\s+:?skip\b|\bXCTSkip"
    r"|\bmarkTest(?:Skipped|Incomplete)\(|\bGTEST_SKIP\b|\bDISABLED_\w"
)
_AIMED_BELOW = regex(r"^\s*(?:@|#\[|\[)")
_ASSERTION = regex(
    r"^\s*assert\b|\bself\.(?:assert|fail)\w*\(|\bassert\w*!?\s*[.(]|\bexpect\s*\(|\.should\b|\bpytest\.raises\b"
    r"|\bt\.(?:Error|Fatal|Fail)\w*\(|\brequire\.[A-Z]\w*\(|\b(?:EXPECT|ASSERT|REQUIRE|CHECK)(?:_[A-Z_]+)?\("
    r"|\bXCTAssert|\bAssert\.\w|^\s*refute\b"
)
_EXACT = regex(
    r"==(?!\s*(?:True|False|None|true|false|null)\b)|\bassertEquals?\b|\bassert_eq|\bassert_equal"
    r"|\.to(?:Be|Equal|StrictEqual|Have\w+)\(|[eE]qual\(|_EQ\(|\bXCTAssertEqual\b|\.AreEqual\("
)
_EMPTY = regex(
    r"\bassert\s+(?:True|1|not\s+False)\b|\bassert\w*!?\(\s*(?:True|true)\s*\)|\bexpect\(\s*true\s*\)"
    r"|\bor\s+True\b|\|\|\s*true\b|\bassertEquals?\(\s*(\w+)\s*,\s*\1\s*\)"
    r"|\bassert_eq!\(\s*(\w+)\s*,\s*\2\s*\)"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk: taken out (`-`), put in (`+`) or there all along (a space)."""

    sign: str
    text: str

    @property
    def is_code(self) -> bool:
        return _COMMENT.match(self.text) is None

    @property
    def asserts(self) -> bool:
        return self.is_code and _ASSERTION.search(self.text) is not None

    @property
    def asserts_exactly(self) -> bool:
        return self.asserts and _EXACT.search(self.text) is not None and not self.asserts_nothing

    @property
    def asserts_nothing(self) -> bool:
        return self.asserts and _EMPTY.search(self.text) is not None

    @property
    def skips(self) -> bool:
        return self.is_code and _SKIP.search(self.text) is not None


@dataclass
class FileLines:
    """One file's part of a diff, with the lines around."""

    path: str
    was_at: str = ""
    """Where it was before, if it was moved."""
    is_new: bool = False
    is_deleted: bool = False
    hunks: list[list[Line]] = field(default_factory=list)

    @property
    def has_tests(self) -> bool:
        # Rust's unit tests are in the files that they test.
        return is_test(self.path) or is_test(self.was_at) or self.path.endswith(".rs")

    def lines(self, sign: str) -> Iterator[Line]:
        return (line for hunk in self.hunks for line in hunk if line.sign == sign)


def read_test_diff(text: str) -> list[FileLines]:
    """The files of a git-style diff."""
    return [
        FileLines(
            file.path,
            was_at=file.old if file.old and file.old != file.path else "",
            is_new=file.is_new,
            is_deleted=file.is_deleted,
            hunks=[[Line(sign, text) for sign, text in hunk.lines] for hunk in file.hunks],
        )
        for file in read_git_diff(text)
    ]


def definition(hunk: list[Line], index: int) -> str:
    """The name of the test that a line defines; empty if it defines none."""
    line = hunk[index]
    if not line.is_code:
        return ""
    if found := _DEFINITION.search(line.text):
        return next(name for name in found.groups() if name)
    if _MARK.search(line.text):
        following = (other for other in hunk[index + 1 : index + 6] if other.sign in (line.sign, " "))
        names = (found[1] for other in following if (found := _MARKED.search(other.text)))
        return next(names, "")
    return ""


def defined(hunk: list[Line], sign: str) -> list[str]:
    """The tests that lines with this sign define, in order."""
    return [name for i, line in enumerate(hunk) if line.sign == sign and (name := definition(hunk, i))]


def owner(hunk: list[Line], index: int) -> tuple[str, str]:
    """The test that a line belongs to or is aimed at: the sign of its definition, and its name."""
    line = hunk[index]
    is_mark = _AIMED_BELOW.match(line.text) is not None
    for other in range(index, len(hunk)) if is_mark else range(index, -1, -1):
        marked = _MARKED.search(hunk[other].text) if is_mark else None
        name = definition(hunk, other) or (marked[1] if marked else "")
        if name and hunk[other].sign in (line.sign, " "):
            return hunk[other].sign, name
    return "", ""


def counted(files: Iterable[FileLines], sign: str) -> Counter[str]:
    """How often each test is defined in the lines with this sign, over the whole diff."""
    return Counter(name for file in files for hunk in file.hunks for name in defined(hunk, sign))


_ASKED_FOR = regex(
    r"\b(remov|delet|drop|clean|skip|disabl|quarantin|xfail|rewrit|merg|consolidat|obsolete)\w*\b.{0,80}"
    r"\b(tests?|specs?)\b",
    re.IGNORECASE | re.DOTALL,
)
_ABOUT_EXPECTATIONS = regex(r"\b(tests?|specs?|expect\w*|assert\w*|snapshots?|fixtures?)\b", re.IGNORECASE)
_TABLE = regex(r"parametrize|\.each\b|subTest|t\.Run\(|@ValueSource|@CsvSource|#\[case|TestCase\(")
_SETTING = regex(
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


async def _judge(facts: Facts, argument: int) -> Verdict:
    return check_weakened((await facts.diff()).text, facts.request)


TESTS_WEAKENED = Check(
    CheckSpec(
        "tests_weakened",
        "No test was removed, skipped or weakened; otherwise the diff goes back to the model once.",
        place="review",
        order=70,
        looks_again=True,  # tests are weakened above all by a model that cannot get them to pass
        leads=True,
    ),
    _judge,
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
    kinds = (is_runner_setting, is_tool_setting, has_test_settings, is_task_file)
    if not any(is_kind(file.path) for is_kind in kinds):
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
