"""What a task and its failures name: words, names of definitions, files, and places in files."""

from collections.abc import Sequence

from headgate.core import path_words
from headgate.features.scouts.code_map import MapQuery
from headgate.first_use import dataclass, regex
from headgate.outlines import identifiers_in, stem, words_of_name
from headgate.reading import FailedTest, word_set

_MOST_TEXT = 30_000
"""Characters of the task, and of all traces, that are looked at."""
_QUOTED = regex(r"`([^`\n]{1,200})`|\"([^\"\n]{1,80})\"|'([\w./:-]{2,80})'")
_WORD = regex(r"\w+")
_ADDRESS = regex(r"https?://\S+")
_LOOKS_LIKE_A_NAME = regex(r"\w*[a-z0-9]_[a-zA-Z0-9]\w*|_+[a-z]\w+|[A-Za-z]*[a-z0-9][A-Z]\w*|[A-Z]{2,}_\w+")
_CALL = regex(r"\b([A-Za-z_]\w+)\(")
_DOTTED = regex(r"\b[A-Za-z_]\w*(?:(?:\.|::|#|->)[A-Za-z_]\w*)+")
_PLACE = regex(
    r"File \"(?P<python>[^\"\n]{1,300})\", line (?P<python_line>\d+)"
    r"|(?<![\w@./+-])(?P<path>[\w@./+-]{1,300}\.[A-Za-z]\w{0,9})[:(](?P<line>\d+)"
)
_TITLE = 3.0
_QUOTED_WEIGHT = 2.0
_STOP = frozenset(
    stem(word)
    for word in word_set(
        """
    a about above add added adding after again all allow allows also always an and another any are as at
    be because been before being below between both bug but by can cannot case change changed changes code
    cjs correct correctly could did do does doesn don done during each either ensure etc example expected few
    file files fix fixed fixes fixing following for from fully get gets getting give given gives go had
    handle has have having here how however i if implement in instead into is issue it its itself js jsx just
    keep let like line lines longer make makes making may me might mjs more most must my need needs new no nor
    not now of off on once one only or other otherwise our out over own please pr problem properly pull py
    remove request result same see should show since so some still such support task test tests than that
    the their them then there these they this those through to too try ts tsx under until up update updated us
    use used uses using via want was way we well were what when where which while who why will with within
    without work works would wrong yet you your
    """
    )
)


@dataclass(frozen=True, slots=True)
class Clues:
    """What to look for."""

    words: dict[str, float]
    """Stems, with how much each counts."""
    names: dict[str, float]
    """Names as they are written in code. A plain word counts little: it may be one by accident."""
    paths: tuple[str, ...]
    """What looks like a path, or the end of one."""
    places: tuple[tuple[str, int], ...]
    """Files and lines of failures and stack traces, the innermost last."""
    test_paths: tuple[str, ...]
    """What failing tests name as their file."""


def read_clues(query: MapQuery) -> Clues:
    """Reads a task."""
    text = _ADDRESS.sub(" ", query.text[:_MOST_TEXT])
    traces = "\n".join(query.traces)[-_MOST_TEXT:]
    failed = "\n".join(f"{one.name} {one.message}" for one in query.failures)[:_MOST_TEXT]
    words: dict[str, float] = {}
    title, _, rest = text.strip().partition("\n")
    for part, weight in ((title, _TITLE), (rest, 1.0), (failed, 0.5)):
        _add_words(words, part, weight)
    names: dict[str, float] = {}
    for name in identifiers_in(text):
        if stem(name) not in _STOP:
            names[name] = 1.0 if _LOOKS_LIKE_A_NAME.fullmatch(name) else 0.25
    for quoted in _QUOTED.finditer(text):
        said = next(filter(None, quoted.groups()))
        _add_words(words, said, _QUOTED_WEIGHT)
        names.update({name: 1.0 for name in identifiers_in(said) if stem(name) not in _STOP})
    for dotted in _DOTTED.findall(text):
        names.update(dict.fromkeys(identifiers_in(dotted), 1.0))
    names.update({name: 1.0 for name in _CALL.findall(text) if len(name) > 2})
    for name in identifiers_in(f"{failed}\n{traces}"):
        if _LOOKS_LIKE_A_NAME.fullmatch(name):
            names.setdefault(name, 0.4)
    return Clues(
        words=words,
        names=names,
        paths=tuple(dict.fromkeys(_paths(text))),
        places=tuple(trace_places(query.failures, traces)),
        test_paths=tuple(
            dict.fromkeys(path for one in query.failures for path in _paths(one.name.split("::")[0]))
        ),
    )


def _add_words(words: dict[str, float], text: str, weight: float) -> None:
    for word in _WORD.findall(text):
        for part in words_of_name(word):
            if part not in _STOP and len(part) > 1:
                words[part] = max(words.get(part, 0.0), weight)


def _paths(text: str) -> list[str]:
    found = [word.strip("./") for word in path_words(text)]
    found += [word.strip("@./`'\",:;()") for word in text.split() if "/" in word and len(word) < 300]
    return [word for word in found if word]


def trace_places(failures: Sequence[FailedTest], traces: str) -> list[tuple[str, int]]:
    """Every file and line that failures and traces name, once each, in order."""
    text = "\n".join([*(one.location for one in failures), traces])
    found: dict[tuple[str, int], None] = {}
    for match in _PLACE.finditer(text):
        path = (match["python"] or match["path"]).removeprefix("./")
        line = int((match["python_line"] or match["line"])[:9])
        found[path, line] = None
    return list(found)
