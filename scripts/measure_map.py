"""How good and how fast the code map is. Prints two tables; `docs/code-map.md` has their figures.

    python scripts/measure_map.py ranking REPOSITORY... [--half report] [--aider PYTHON] [--work FOLDER]
    python scripts/measure_map.py speed [--files 50000]

`ranking` takes real commits of git repositories (bare ones will do) that fixed something in one to five
source files. The commit's message is the task, the tree before it is what is searched, and the question is
whether the files that it changed are among the first five: of the map, of a plain keyword search (BM25),
and of aider's repository map, if a Python that has aider-chat installed is named. Weights are chosen with
the commits of the half `tune`; what is reported comes from the others. Tests and documents are taken out of
what the other two find, but not out of the map.
"""

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from headgate.features.scouts.code_map import MapLimits, MapQuery
from headgate.features.scouts.mapping import make_map
from headgate.features.scouts.ranking import Weights
from headgate.reading import is_code, is_test, word_set
from headgate.tree import DiskWorkspace

TOP = 5
_FIX = re.compile(r"\b(fix|fixe[sd]|fixing|bugs?|bugfix)\b", re.IGNORECASE)
_NOT_CODE = re.compile(
    r"\b(typos?|docs?|documentation|docstrings?|changelog|lint|linting|flake8|mypy|typing|ruff|ci|travis|bump|deps|tests?"
    r"|revert|release|version|spelling|comments?|warnings?|examples?|readme|merge)\b",
    re.IGNORECASE,
)
_TRAILER = re.compile(
    r"^(co-authored-by|signed-off-by|reviewed-by|change-id):.*$", re.IGNORECASE | re.MULTILINE
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Case:
    """One commit that fixed something."""

    repository: Path
    commit: str
    message: str
    changed: tuple[str, ...]


def git(repository: Path, *arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True)
    return done.stdout.decode("utf-8", "replace")


def find_cases(repository: Path, half: str, most: int) -> list[Case]:
    """The newest commits of one half (by the last digit of their names) that fixed 1 to 5 source files."""
    cases: list[Case] = []
    for line in git(repository, "log", "--no-merges", "--format=%H %s").splitlines():
        commit, _, subject = line.partition(" ")
        wanted = (int(commit[-1], 16) % 2 == 0) == (half == "tune")
        if not wanted or not _FIX.search(subject) or _NOT_CODE.search(subject) or len(subject.split()) < 4:
            continue
        rows = git(repository, "diff-tree", "-r", "--no-commit-id", "--name-status", commit).splitlines()
        changed = tuple(
            path for kind, _, path in (row.partition("\t") for row in rows) if is_source(path) and kind == "M"
        )
        new = [row for row in rows if not row.startswith("M") and is_source(row.rpartition("\t")[2])]
        if 1 <= len(changed) <= 5 and not new:
            text = _TRAILER.sub("", git(repository, "log", "-1", "--format=%B", commit)).strip()
            cases.append(Case(repository, commit, text, changed))
            if len(cases) == most:
                break
    return cases


def is_source(path: str) -> bool:
    """Whether a file is code, and neither a test nor documentation."""
    return is_code(path) and not is_test(path) and not path.startswith(("docs/", "doc/", "examples/"))


def write_tree(case: Case, work: Path) -> Path:
    """The files as they were before the commit, except those that the repository lacks."""
    name = case.repository.parent.name if case.repository.name in ("repo", ".git") else case.repository.name
    place = work / "trees" / name / case.commit[:12]
    if place.exists():
        return place
    rows = [
        row.partition("\t") for row in git(case.repository, "ls-tree", "-r", f"{case.commit}^").splitlines()
    ]
    blobs = [
        (head.split()[2], path)
        for head, _, path in rows
        if head.startswith("100") and not path.startswith('"')
    ]
    command = ["git", "-C", str(case.repository), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for blob, path in blobs:
            process.stdin.write(f"{blob}\n".encode())
            process.stdin.flush()
            head = process.stdout.readline().split()
            if head[-1] == b"missing":
                continue
            data = process.stdout.read(int(head[2]) + 1)[:-1]
            target = place / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return place


def by_map(case: Case, tree: Path, index: Path, weights: Weights) -> list[str]:
    """The files of the map, as they are in it."""
    query = MapQuery(case.message)
    found = make_map(DiskWorkspace(tree), query, index, lambda path: False, MapLimits(seconds=600), weights)
    return [file.path for file in found.files]


def by_keywords(case: Case, tree: Path) -> list[str]:
    """BM25 over the words of source files: what a careful search for the task's words would find."""
    wanted = {word for word in _words(case.message) if len(word) > 2}
    files = [path for path in sorted(DiskWorkspace(tree).files()) if is_source(path)]
    counts = {
        path: Counter(_words(path + "\n" + (tree / path).read_text("utf-8", "replace"))) for path in files
    }
    having = {word: sum(word in count for count in counts.values()) for word in wanted}
    rarities = {
        word: math.log(1 + (len(files) - having[word] + 0.5) / (having[word] + 0.5))
        for word in sorted(wanted)
    }
    usual = sum(count.total() for count in counts.values()) / max(1, len(counts))
    scores: dict[str, float] = {}
    for path, count in counts.items():
        spread = 1.2 * (0.25 + 0.75 * count.total() / usual)
        scores[path] = sum(
            rarity * count[word] * 2.2 / (count[word] + spread) for word, rarity in rarities.items()
        )
    return sorted(scores, key=lambda path: (-scores[path], path))


def _words(text: str) -> list[str]:
    return [part.lower() for part in _PART.findall(text)]


AIDER = """
import json, os, shutil, sys
from aider.coders.base_coder import Coder
from aider.repomap import RepoMap

class Quiet:
    def read_text(self, name):
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def __getattr__(self, name):
        return lambda *arguments, **named: None

class Model:
    def token_count(self, text):
        return len(text) // 4

for line in sys.stdin:
    asked = json.loads(line)
    root, message, files = asked["root"], asked["message"], asked["files"]
    class Chat:
        abs_read_only_fnames = set()
        get_all_relative_files = get_addable_relative_files = lambda self: files
        get_inchat_relative_files = lambda self: []
        get_rel_fname = lambda self, name: name
    chat = Chat()
    idents = Coder.get_ident_mentions(chat, message)
    names = Coder.get_file_mentions(chat, message) | Coder.get_ident_filename_matches(chat, idents)
    repo_map = RepoMap(root=root, io=Quiet(), main_model=Model())
    tags = repo_map.get_ranked_tags([], [os.path.join(root, name) for name in files], names, idents)
    ranked = list(dict.fromkeys(tag[0] for tag in tags))
    print(json.dumps(ranked), flush=True)
    del repo_map
    for name in os.listdir(root):
        if name.startswith(".aider"):
            shutil.rmtree(os.path.join(root, name))
"""


class Aider:
    """aider's repository map, in the Python that has it. Nothing of aider is imported here."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-c", AIDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def __call__(self, case: Case, tree: Path) -> list[str]:
        """The files of its map, the best first."""
        files = sorted(DiskWorkspace(tree).files())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({"root": str(tree), "message": case.message, "files": files}) + "\n"
        )
        self._process.stdin.flush()
        return [path for path in json.loads(self._process.stdout.readline()) if is_source(path)]


@dataclass
class Tally:
    """How often the changed files were found."""

    cases: int = 0
    any_found: int = 0
    all_found: int = 0
    share: float = 0.0

    def add(self, case: Case, ranked: Sequence[str]) -> None:
        """Counts one case."""
        hits = len(set(ranked[:TOP]) & set(case.changed))
        self.cases += 1
        self.any_found += hits > 0
        self.all_found += hits == len(case.changed)
        self.share += hits / len(case.changed)

    def row(self) -> str:
        """Its figures."""
        cases = max(1, self.cases)
        figures = (self.any_found / cases, self.all_found / cases, self.share / cases)
        return "  ".join(f"{100 * figure:5.1f}%" for figure in figures)


def measure_ranking(options: argparse.Namespace) -> None:
    """Prints the first table."""
    work = Path(options.work or tempfile.mkdtemp(prefix="headgate-map-"))
    weights = replace(Weights(), **dict(_weight(text) for text in options.weight))
    methods: dict[str, Callable[[Case, Path], list[str]]] = {
        "map": lambda case, tree: by_map(case, tree, work / f"{case.repository.parent.name}.db", weights)
    }
    if not options.only_map:
        methods["keywords"] = by_keywords
        if options.aider:
            methods["aider"] = Aider(options.aider)
    total = {name: Tally() for name in methods}
    print(f"{'repository':24} {'method':9} {'cases':>5}   any in {TOP}  all in {TOP}  share")
    for repository in map(Path, options.repositories):
        tallies = {name: Tally() for name in methods}
        for case in find_cases(repository, options.half, options.cases):
            tree = write_tree(case, work)
            for name, method in methods.items():
                ranked = method(case, tree)
                tallies[name].add(case, ranked)
                total[name].add(case, ranked)
                if options.detail:
                    places = [ranked.index(path) + 1 if path in ranked else 0 for path in case.changed]
                    print(f"  {case.commit[:8]} {name:9} {places} {case.message.splitlines()[0][:80]}")
        for name, tally in tallies.items():
            print(f"{repository.parent.name:24} {name:9} {tally.cases:5}   {tally.row()}")
    for name, tally in total.items():
        print(f"{'all':24} {name:9} {tally.cases:5}   {tally.row()}")
    if not options.work:
        shutil.rmtree(work)


def _weight(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    kind = {field.name: field.type for field in fields(Weights)}[name]
    return name, int(value) if kind is int else float(value)


def measure_speed(options: argparse.Namespace) -> None:
    """Prints the second table."""
    with tempfile.TemporaryDirectory(prefix="headgate-map-") as folder:
        root = Path(folder, "tree")
        size = sum(_write(root / path, text) for path, text in _made_up_files(options.files))
        time.sleep(2.1)  # what was written a moment ago may change again without a sign of it
        print(f"{options.files} files, {size / 1e6:.0f} MB")
        index = Path(folder, "index", "map.db")
        workspace = DiskWorkspace(root)
        for what in ("first map", "second map", "one file changed"):
            if what == "one file changed":
                _write(root / "pkg0/mod0.py", "def changed_by_hand():\n    return 1\n")
            begun = time.perf_counter()
            query = MapQuery("Fix the rounding of invoice totals in convert_price_7")
            found = make_map(workspace, query, index, lambda path: False, MapLimits(seconds=3600), Weights())
            seconds = time.perf_counter() - begun
            print(f"{what:18} {seconds:8.2f} s   {found.files_parsed} parsed, {found.files_left} left")
        print(f"index: {sum(path.stat().st_size for path in index.parent.iterdir()) / 1e6:.0f} MB")


def _write(path: Path, text: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_text(text)


_WORDS = sorted(
    word_set(
        "invoice total price order client parse render format convert load store cache index query batch tax"
    )
)


def _made_up_files(count: int) -> Iterator[tuple[str, str]]:
    """Modules that use each other, of about eighty lines, in folders of fifty."""
    for number in range(count):
        verb, noun = _WORDS[number % 16], _WORDS[number // 16 % 16]
        lines = [f'"""Module {number}: how to {verb} a {noun}."""', "", "import os"]
        other = (number * 7919 + 13) % count
        used = f"{_WORDS[other % 16]}_{_WORDS[other // 16 % 16]}_{other}"
        lines += [f"from pkg{other // 50}.mod{other} import {used}", ""]
        lines += [f"class {noun.title()}{verb.title()}{number}:", f'    """Keeps one {noun}."""', ""]
        for part in range(8):
            lines += [
                f"    def {verb}_{_WORDS[(number + part) % 16]}_{part}(self, value: int, limit: int) -> int:",
                f"        # The {noun} is {verb}ed in steps.",
                f"        result_{part} = value * {part + 2} + limit",
                f"        if result_{part} > limit:",
                f"            return {used}(result_{part})",
                f"        return result_{part}", "",
            ]  # fmt: skip
        lines += [f"def {verb}_{noun}_{number}(value: int) -> int:", "    return os.getpid() + value", ""]
        yield f"pkg{number // 50}/mod{number}.py", "\n".join(lines)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    ranking = commands.add_parser("ranking")
    ranking.add_argument("repositories", nargs="+")
    ranking.add_argument("--half", choices=["tune", "report"], default="report")
    ranking.add_argument("--cases", type=int, default=12, help="commits of each repository")
    ranking.add_argument("--aider", help="a Python that has aider-chat")
    ranking.add_argument("--work", help="a folder for the trees, kept")
    ranking.add_argument("--weight", action="append", default=[], help="such as graph=0.4")
    ranking.add_argument("--only-map", action="store_true")
    ranking.add_argument("--detail", action="store_true")
    ranking.set_defaults(run=measure_ranking)
    speed = commands.add_parser("speed")
    speed.add_argument("--files", type=int, default=50_000)
    speed.set_defaults(run=measure_speed)
    options = parser.parse_args(sys.argv[1:])
    options.run(options)


if __name__ == "__main__":
    main()
