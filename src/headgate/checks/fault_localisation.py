"""Where a bug may be: the lines that failing tests ran and passing ones did not, and where the trace went.

The measure for a line is Ochiai's: the failing tests that ran it, over the geometric mean of all failing
tests and of all tests that ran it.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import sqrt

from headgate.first_use import dataclass
from headgate.reading import find_functions, lines_with_logic

TRACE_BONUS = 0.15
"""What being in the trace of a failure adds: it breaks ties, and little more."""
NAMED_BONUS = 0.1
"""What being named by the task adds, as a file or as a function: among equals, it comes first."""
MOST_TIED = 10
"""Of more functions that are equally suspect, five tell nothing."""
LEAST_SHARE = 0.5
"""What is less suspect than that, by the score of the first, would only lead away from it."""
Lines = Mapping[str, frozenset[int]]
"""The lines of each file, by its path."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A function, or a whole file where functions are not known, and how suspect it is, up to about 1."""

    path: str
    function: str = ""
    first: int = 1
    last: int = 0
    score: float = 0.0
    lines: tuple[int, ...] = ()
    """Its lines that failing tests ran, the most suspect first, less those that hold nothing to get wrong."""
    scores: tuple[float, ...] = ()
    """How suspect each of these is."""
    line: int = 0
    """The one line that is meant, where it is one."""

    @property
    def place(self) -> str:
        """What people are told: `cart.py: Cart.total`, or the file alone."""
        if self.line:
            return f"{self.path}:{self.line}"
        return f"{self.path}: {self.function}" if self.function else self.path


def suspect_lines(suspects: Iterable[Suspect]) -> list[Suspect]:
    """The lines of functions, the most suspect first; of equals, those of the more suspect function."""
    found = [
        (score, replace(suspect, line=line))
        for suspect in suspects
        for line, score in zip(suspect.lines, suspect.scores, strict=True)
    ]
    return [line for _, line in sorted(found, key=lambda each: -each[0])]


def score_lines(failed: Sequence[Lines], passed: Sequence[Lines]) -> dict[tuple[str, int], float]:
    """How suspect each line is that a failing test ran."""
    ran: dict[tuple[str, int], list[int]] = {}
    for place, tests in enumerate((failed, passed)):
        for test in tests:
            for path, lines in test.items():
                for line in lines:
                    ran.setdefault((path, line), [0, 0])[place] += 1
    return {
        key: failing / sqrt(len(failed) * (failing + passing))
        for key, (failing, passing) in ran.items()
        if failing
    }


def rank_functions(
    sources: Mapping[str, str],
    scores: Mapping[tuple[str, int], float],
    trace: Iterable[tuple[str, int]] = (),
    named: Container[str] = (),
) -> tuple[Suspect, ...]:
    """The functions of Python sources, the most suspect first, those that nothing speaks against left out.

    `trace` holds the places that the trace of a failure names, outermost first; `named`, the paths and the
    words of the task.
    """
    traced = list(trace)
    found: list[tuple[float, int, Suspect]] = []
    for path, source in sources.items():
        telling = lines_with_logic(source)
        for function in find_functions(source):
            # The line of the `def` is run on import, by whichever test comes first; it may be all there is.
            inside = range(function.first + (function.last > function.first), function.last + 1)
            lines = {line: scores[path, line] for line in inside if (path, line) in scores}
            depth = max(
                (at for at, (file, line) in enumerate(traced) if file == path and line in inside), default=-1
            )
            if not lines and depth < 0:
                continue
            top = max(lines.values(), default=0.5)
            is_named = path in named or function.short in named
            score = top + TRACE_BONUS * (depth >= 0) + NAMED_BONUS * is_named
            ordered = sorted((-value, line) for line, value in lines.items() if line in telling)
            suspect = Suspect(
                path,
                function.name,
                function.first,
                function.last,
                score,
                tuple(line for _, line in ordered),
                tuple(-value for value, _ in ordered),
            )
            found.append((score, depth, suspect))
    # Of equals, the one with more in it to get wrong comes first.
    found.sort(key=lambda each: (-each[0], -each[1], -len(each[2].lines)))
    return tuple(suspect for _, _, suspect in found)


def likely_lines(suspects: Sequence[Suspect], named: Iterable[tuple[str, int]] = ()) -> list[Suspect]:
    """The most suspect line of each function that stands out, for a reader who looks at a few places only.

    `named` are places that are told anyway: what is no more suspect than they are adds nothing.
    """
    places = list(named)
    known = max((suspect.score for suspect in suspects if _holds_any(suspect, places)), default=0.0)
    found: list[Suspect] = []
    for score, group in groupby(suspects, key=lambda suspect: suspect.score):
        tied = list(group)
        if score <= known or score < suspects[0].score * LEAST_SHARE or len(tied) > MOST_TIED:
            break
        found += [suspect for suspect in tied if suspect.lines]
    return [replace(suspect, line=suspect.lines[0]) for suspect in found]


def _holds_any(suspect: Suspect, places: Iterable[tuple[str, int]]) -> bool:
    return any(path == suspect.path and suspect.first <= line <= suspect.last for path, line in places)
