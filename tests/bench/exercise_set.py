"""A set of exercises in the layout of six languages, and what a good model would write."""

import json
from pathlib import Path
from typing import NamedTuple


class Files(NamedTuple):
    """The files of one exercise, by what they are for."""

    solution: str
    stub: str
    answer: str
    test: str
    test_text: str


PYTHON_TEST = """\
import unittest

from leap import leap_year


class LeapTest(unittest.TestCase):
    def test_common_year(self):
        self.assertIs(leap_year(2015), False)

    def test_century(self):
        self.assertIs(leap_year(1900), False)

    def test_fourth_century(self):
        self.assertIs(leap_year(2000), True)
"""
PYTHON_ANSWER = "def leap_year(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n"
_SHELL_TEST = 'grep -q "% 400" {} || {{ echo "2000 is a leap year"; exit 1; }}\n'


def _elsewhere(solution: str, test: str, first: str = "") -> Files:
    """An exercise whose tests are a shell script, because its language may not be installed."""
    return Files(solution, "TODO\n", "year % 400\n", test, first + _SHELL_TEST.format(solution))


EXERCISES = {
    "python/exercises/practice/leap": Files(
        "leap.py", "def leap_year(year):\n    pass\n", PYTHON_ANSWER, "leap_test.py", PYTHON_TEST
    ),
    "javascript/exercises/practice/leap": _elsewhere("leap.js", "leap.spec.js", "# xtest('2000')\n"),
    "go/exercises/practice/leap": _elsewhere("leap.go", "leap_test.go"),
    "rust/exercises/practice/leap": _elsewhere("src/lib.rs", "tests/leap.rs"),
    "java/exercises/practice/leap": _elsewhere(
        "src/main/java/Leap.java", "src/test/java/LeapTest.java", '# @Disabled("Remove to run test") @Test\n'
    ),
    "cpp/exercises/practice/leap": _elsewhere("leap.cpp", "leap_test.cpp"),
}
ANSWERS = {files.solution: files.answer for files in EXERCISES.values()}
COMMANDS = [
    word
    for name, files in EXERCISES.items()
    if not name.startswith("python")
    for word in ("--command", f"{name.split('/')[0]}=sh {files.test}")
]


def write_exercises(root: Path, names: list[str] | None = None) -> Path:
    """Writes the exercises, or some of them, below a folder; returns it."""
    for name in names or EXERCISES:
        write_exercise(root / name, EXERCISES[name])
    return root


def write_exercise(folder: Path, files: Files) -> None:
    example = f".meta/example{Path(files.solution).suffix}"
    roles = {"solution": [files.solution], "test": [files.test], "example": [example]}
    contents = {
        ".docs/introduction.md": "# Introduction\n\nThe calendar has leap years.\n",
        ".docs/instructions.md": "# Instructions\n\nSay whether a year is a leap year.\n",
        ".docs/instructions.append.md": "# Instructions append\n\nThe function takes a number.\n",
        ".meta/config.json": json.dumps({"authors": ["nobody"], "files": roles, "blurb": "Leap years."}),
        example: "SECRET SOLUTION\n",
        ".approaches/introduction.md": "SECRET APPROACH\n",
        files.solution: files.stub,
        files.test: files.test_text,
    }
    for path, text in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
