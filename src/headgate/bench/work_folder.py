"""A throwaway repository for one exercise: a copy without what would give the solution away.

The tests in it are copies of the originals, with every test switched on. They are kept in memory as well, and
put back before each run, whatever has happened to the files.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from headgate.bench.exercises import AGENT, TASK, Exercise
from headgate.bench.languages import BUILT, unskip
from headgate.core import show_path
from headgate.first_use import dataclass
from headgate.reading import is_test
from headgate.regular_files import open_up_folders
from headgate.tree import ConfinedTree, Reverter, git, mode_at, read_at

_LEFT_OUT = frozenset(
    {".git", ".headgate", ".meta", ".docs", ".approaches", ".articles", ".exercism", "node_modules"}
)
_BUILT = frozenset(name.rstrip("/") for name in BUILT)
_AUTHOR = ("-c", "user.name=Headgate", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false")
PACKAGES = "node_modules"


@dataclass(frozen=True, slots=True)
class _Original:
    data: bytes
    mode: int


@dataclass(frozen=True)
class WorkFolder:
    """The repository that a task works in, and the tests that belong there."""

    repo: Path
    tests: dict[str, _Original]
    packages: Path | None = None
    """Where its links to installed packages lead."""

    def restore_tests(self) -> None:
        """Puts the tests back as they were. What stands in their way is removed; no link is followed."""
        tree = ConfinedTree(self.repo)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as aside:
            reverter = Reverter(self.repo, Path(aside))
            for path, original in self.tests.items():
                _open_up(self.repo, PurePosixPath(path))  # code under test may have locked a folder
                shown = show_path(path)
                content, mode = read_at(tree, shown, len(original.data)), mode_at(tree, shown)
                if (content, mode) != (original.data, original.mode):
                    reverter.put_file(path, original.data, original.mode)


def make_work_folder(exercise: Exercise, place: Path, root: Path) -> WorkFolder:
    """Copies an exercise into a new repository in `place`. `root` is the folder of all exercises.

    The repository has the exercise's own name: some build files read it. Blocking.
    """
    repo = place / exercise.source.name
    repo.mkdir(parents=True)
    tests: dict[str, _Original] = {}
    for path in _files(exercise.source):
        source = exercise.source / path
        if not _is_copied(exercise, path):
            continue
        target = repo / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
            continue
        shutil.copy(source, target)
        target.chmod(stat.S_IMODE(target.stat().st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        if path in exercise.tests or (is_test(path) and path not in exercise.solution):
            tests[path] = _switch_on(exercise.language, target)
    if exercise.config and not (repo / AGENT).exists():
        shutil.copy(exercise.config, repo / AGENT)
    needs_packages = exercise.layout == "polyglot" and exercise.language == "javascript"
    packages = _link_packages(exercise, repo, root) if needs_packages else None
    _commit(repo)
    return WorkFolder(repo, tests, packages)


def _files(source: Path) -> Iterator[str]:
    """The files of an exercise, and its links that stay inside of it."""
    root = Path(os.path.realpath(source))
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(folder) / name
            if path.is_symlink():
                stays = not path.readlink().is_absolute() and Path(os.path.realpath(path)).is_relative_to(
                    root
                )
            else:
                stays = path.is_file()  # no pipe, no device
            if stays:
                yield path.relative_to(source).as_posix()


def _is_copied(exercise: Exercise, path: str) -> bool:
    parts = PurePosixPath(path).parts
    if path in exercise.hidden or any(part in _BUILT for part in parts[:-1]):
        return False
    return exercise.layout == "polyglot" or path != TASK


def _switch_on(language: str, file: Path) -> _Original:
    """Switches on the tests of a copied file, and keeps what it then holds."""
    data = file.read_bytes()
    changed = unskip(language, data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if changed != data:
        file.write_bytes(changed)
    return _Original(changed, stat.S_IMODE(file.stat().st_mode))


def _link_packages(exercise: Exercise, repo: Path, root: Path) -> Path | None:
    """Gives JavaScript tests the packages that are installed at the exercise or above it."""
    places = [exercise.source, *exercise.source.parents]
    places = [place for place in places if place == root or place.is_relative_to(root)]
    found = next((place / PACKAGES for place in places if (place / PACKAGES).is_dir()), None)
    if found is None:
        return None
    (repo / PACKAGES).symlink_to(found.resolve())
    return found.resolve()


def _commit(repo: Path) -> None:
    git(repo, "init", "-q", "--template=")
    info = repo / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "exclude").write_text("\n".join([*BUILT, ""]), encoding="utf-8")
    git(repo, "add", "--all")
    git(repo, *_AUTHOR, "commit", "-q", "--allow-empty", "--no-verify", "-m", "The exercise")


def _open_up(repo: Path, path: PurePosixPath) -> None:
    """Opens the folders that a file is in, down to one that is a link."""
    for folder in reversed(path.parents):
        if (place := repo / folder).is_symlink():
            return
        open_up_folders(place)
