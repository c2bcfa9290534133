"""The languages of exercises: how their tests are run, what that needs, and tests that are switched off."""

import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from headgate.first_use import dataclass, regex

_SUFFIXES = {
    ".py": "python",
    ".js": "javascript",
    ".mjs": "javascript",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".h": "cpp",
    ".hpp": "cpp",
    ".rb": "ruby",
    ".ts": "typescript",
    ".c": "c",
    ".cs": "csharp",
    ".php": "php",
    ".sh": "bash",
}
_OTHER_NAMES = {"c++": "cpp", "js": "javascript", "py": "python", "golang": "go"}
UNKNOWN = "other"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """How the tests of one language are run."""

    command: str
    programs: tuple[str, ...]
    """What must be installed for that."""

    def missing(self, search: str | None) -> str:
        """The first of the programs that is not installed; empty if none is."""
        return next((name for name in self.programs if shutil.which(name, path=search) is None), "")


TOOLCHAINS = {
    "javascript": Toolchain("npm test", ("npm",)),
    "go": Toolchain("go test ./...", ("go",)),
    "rust": Toolchain("cargo test -- --include-ignored", ("cargo",)),
    "java": Toolchain("./gradlew test --no-daemon", ("java",)),
    "cpp": Toolchain(
        "cmake -S . -B build -DEXERCISM_RUN_ALL_TESTS=1 && cmake --build build", ("cmake", "make")
    ),
}
_MAVEN = Toolchain("mvn --batch-mode test", ("mvn",))
BUILT = ("__pycache__/", ".pytest_cache/", "node_modules", "target/", "build/", ".gradle/")
"""What the runners leave behind, as patterns for git: no work of the model."""


def canonical_language(name: str) -> str:
    """A language's name as results have it: `C++` is `cpp`."""
    lowered = name.strip().lower()
    return _OTHER_NAMES.get(lowered, lowered)


def find_language(files: Iterable[str], places: Iterable[str]) -> str:
    """The language of an exercise: by the suffixes of its files, or else by the folders that it is in."""
    suffixes = (_SUFFIXES.get(PurePosixPath(file).suffix.lower()) for file in files)
    counted = Counter(filter(None, suffixes))
    if counted:
        return counted.most_common(1)[0][0]
    known = {*TOOLCHAINS, *_SUFFIXES.values()}
    return next((name for place in places if (name := canonical_language(place)) in known), UNKNOWN)


def python_command(tests: Sequence[str]) -> str:
    """The command that runs the tests of an exercise in Python."""
    # A Headgate that was installed apart from everything else has no pytest.
    python = sys.executable if find_spec("pytest") else "python3"
    command = shlex.join([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests])
    return f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {command}"  # exercises need none of what is installed


def find_toolchain(language: str, repo: Path) -> Toolchain | None:
    """How the tests of an exercise are run; None for Python, and where there is no usual way.

    Exercises in Java that do not bring Gradle along may be Maven's.
    """
    if language == "java" and not (repo / "gradlew").is_file():
        return _MAVEN if (repo / "pom.xml").is_file() else None
    return TOOLCHAINS.get(language)


_SKIPPED: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "javascript": (
        (regex(r"\bx(test|it|describe)(?=\s*[.(])"), r"\1"),
        (regex(r"\b(test|it|describe)\.skip(?=\s*[.(])"), r"\1"),
    ),
    "java": ((regex(r"@Disabled\b(?:\s*\(\s*\"(?:[^\"\\]|\\.)*\"\s*\))?"), ""),),
}


def unskip(language: str, text: str) -> str:
    """A test file in which every test counts: authors of exercises let learners switch them on one by one."""
    for pattern, replacement in _SKIPPED.get(language, ()):
        text = pattern.sub(replacement, text)
    return text
