"""A task's diff as far as it is about tests: which lines define a test, skip one, or assert something."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headgate.checks.diffs import read_files
from headgate.core.testfiles import is_test

_RENAMED = "rename from "
_DEFINITION = re.compile(
    r"^\s*(?:async\s+)?def\s+(?:self\.)?(test\w*)"
    r"|^\s*(?:public\s+)?function\s+(test\w+)\s*\("
    r"|^func\s+(?:\([^)]*\)\s*)?((?:Test|Fuzz|Example)\w*)\s*\("
    r"|^\s*[xf]?(?:it|test|specify|scenario)\b[\w.]*\s*\(?\s*(?:\([^()]*\)\s*\(\s*)?[\"'`](.+?)[\"'`]"
    r"|^\s*(?:TEST|TEST_F|TEST_P|TEST_CASE)\s*\(\s*(.+?)\s*\)"
)
_MARK = re.compile(
    r"^\s*(?:@(?:Test|ParameterizedTest|RepeatedTest)\b|#\[(?:\w+::)*test\b|\[(?:Test|Fact|Theory|TestMethod)\b)"
)
"""In some languages a mark makes the next function a test."""
_MARKED = re.compile(r"\b(?:fn|fun|void|Task|def)\s+[`\"]?(\w+)")
_COMMENT = re.compile(r"^\s*(#(?!\[)|//|/\*|\*|--)")
_SKIP = re.compile(
    r"pytest\.mark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail)\(|\bunittest\.(?:skip|expectedFailure)"
    r"|^\s*@(?:skip|skipIf|skipUnless|expectedFailure|Disabled|Ignore)\b|\.skipTest\(|\bSkipTest\b"
    r"|\b__test__\s*=\s*False"
    r"|\b(?:it|test|describe|context|suite|specify)\.(?:skip|only|todo|failing|fixme)\b"
    r"|^\s*(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe)\b|\bthis\.skip\(\)"
    r"|\bt\.Skip(?:f|Now)?\(|^\s*#\[ignore\b|\[Ignore\b|\bSkip\s*=\s*\"|@tag\s+:?skip\b|\bXCTSkip"
    r"|\bmarkTest(?:Skipped|Incomplete)\(|\bGTEST_SKIP\b|\bDISABLED_\w"
)
_AIMED_BELOW = re.compile(r"^\s*(?:@|#\[|\[)")
_ASSERTION = re.compile(
    r"^\s*assert\b|\bself\.(?:assert|fail)\w*\(|\bassert\w*!?\s*[.(]|\bexpect\s*\(|\.should\b|\bpytest\.raises\b"
    r"|\bt\.(?:Error|Fatal|Fail)\w*\(|\brequire\.[A-Z]\w*\(|\b(?:EXPECT|ASSERT|REQUIRE|CHECK)(?:_[A-Z_]+)?\("
    r"|\bXCTAssert|\bAssert\.\w|^\s*refute\b"
)
_EXACT = re.compile(
    r"==(?!\s*(?:True|False|None|true|false|null)\b)|\bassertEquals?\b|\bassert_eq|\bassert_equal"
    r"|\.to(?:Be|Equal|StrictEqual|Have\w+)\(|[eE]qual\(|_EQ\(|\bXCTAssertEqual\b|\.AreEqual\("
)
_EMPTY = re.compile(
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
            part.path,
            was_at=next((line[len(_RENAMED) :] for line in part.header if line.startswith(_RENAMED)), ""),
            is_new=any(line.startswith("new file mode") for line in part.header),
            is_deleted=any(line.startswith("deleted file mode") for line in part.header),
            hunks=[[Line(line[0], line[1:]) for line in hunk] for hunk in part.hunks],
        )
        for part in read_files(text)
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
