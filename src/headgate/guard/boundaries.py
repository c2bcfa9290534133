"""Boundaries as people write them: patterns, paths, and prose with the name of a file or folder in it."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from headgate.core import (
    bare_words,
    boundary_problems,
    looks_like_path,
    names_the_opposite,
    split_list,
    strip_ending,
    unquote,
    without_notes,
)
from headgate.first_use import dataclass, regex

_GLOB = regex(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class ResolvedBoundaries:
    """What is enforced of a list of boundaries, and what cannot be."""

    globs: tuple[str, ...]
    """Patterns as in .gitignore, for the guard."""
    resolved: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Words that are no pattern themselves, and the paths that they were taken to mean."""
    unenforced: tuple[str, ...] = ()
    """Prose that names no path here, or that may mean the opposite of the paths it names."""
    unmatched: tuple[str, ...] = ()
    """Patterns that are enforced, but match nothing that exists."""
    spared: tuple[str, ...] = ()
    """Sentences that protect the tests that exist."""

    def describe(self) -> tuple[str, ...]:
        """What a person should know who wrote these: what each was taken to mean, and the problems."""
        found = [f'Boundary "{text}": {", ".join(paths)}.' for text, paths in self.resolved]
        found += [f'"{text.rstrip(".")}": no test that exists may be changed.' for text in self.spared]
        return (*found, *self.problems())

    def problems(self) -> tuple[str, ...]:
        """A sentence or two for each boundary that protects nothing now."""
        return boundary_problems(self.unenforced, self.unmatched)


class _Names:
    """The files and directories of a repository; looked through only if a boundary asks."""

    def __init__(self, files: Iterable[str]) -> None:
        self._given = files

    @cached_property
    def files(self) -> dict[str, None]:
        return dict.fromkeys(self._given)

    @cached_property
    def directories(self) -> dict[str, None]:
        found: dict[str, None] = {}
        for path in self.files:
            while (path := path.rpartition("/")[0]) and path not in found:
                found[path] = None
        return dict(sorted(found.items()))

    def has(self, path: str) -> bool:
        """Whether a pattern without wildcards matches: a whole path, or one name anywhere."""
        place = path.casefold().removeprefix("./").strip("/")
        return place in self._folded_files or place in self._folded_directories

    def is_file(self, path: str) -> bool:
        """Whether a pattern without wildcards can only match files."""
        place = path.casefold().removeprefix("./").strip("/")
        return place in self._folded_files and place not in self._folded_directories

    def named_in(self, prose: str) -> dict[str, str]:
        """The files and directories whose name is a word of a sentence, and their patterns.

        A file's name counts with its extension and without it. One letter is no name: a sentence has many.
        """
        words = {word.casefold() for word in bare_words(prose) if len(word) > 1}
        taken: dict[str, str] = {}
        for path in (*(f"{directory}/" for directory in self.directories), *self.files):
            name = path.removesuffix("/").rpartition("/")[2].casefold()
            stem = name if path.endswith("/") else name[:1] + name[1:].partition(".")[0]
            if not words.isdisjoint((name, stem)) and not any(map(path.startswith, _folders_of(taken))):
                taken[path] = f"/{_escape(path)}"
        return taken

    @cached_property
    def _folded_files(self) -> set[str]:
        return _with_names(self.files)

    @cached_property
    def _folded_directories(self) -> set[str]:
        return _with_names(self.directories)


def _with_names(paths: Iterable[str]) -> set[str]:
    whole = {path.casefold() for path in paths}
    return whole | {path.rpartition("/")[2] for path in whole}


def resolve_boundaries(
    boundaries: Iterable[str],
    files: Iterable[str],
    roots: Iterable[str] = (),
    matches: Callable[[str], bool] = lambda pattern: True,
) -> ResolvedBoundaries:
    """Takes patterns and paths as they are, and from prose the words that are the name of something here.

    `files` are the repository's, relative to its root, and `roots` are spellings of that root. `matches` says
    whether a pattern matches anything that exists. A path that matches nothing from the root, but does
    further down, is taken to mean that. `X except Y` comes first in the result: the exception limits X alone,
    and opens nothing that another boundary protects.
    """
    names = _Names(files)
    found = _ResolvedSoFar(matches)
    spelled_roots = tuple(roots)
    placed = {text: within_root(text, spelled_roots) for text in map(str.strip, boundaries)}
    for text in sorted(placed, key=lambda text: split_exception(placed[text]) is None):
        _resolve_text(text, placed[text], names, found)
    return ResolvedBoundaries(
        tuple(found.globs), tuple(found.resolved.items()), tuple(found.unenforced), tuple(found.unmatched)
    )


class _ResolvedSoFar:
    """What has been found so far, each once."""

    def __init__(self, matches: Callable[[str], bool]) -> None:
        self._matches = matches
        self.globs: dict[str, None] = {}
        self.resolved: dict[str, tuple[str, ...]] = {}
        self.unenforced: dict[str, None] = {}
        self.unmatched: dict[str, None] = {}
        self._has_exceptions = False

    def add_pattern(self, pattern: str) -> str:
        """Adds a pattern that a person spelled; returns the one that is enforced."""
        placed = pattern if pattern.startswith("!") else self._place(pattern)
        if placed is None:
            self.unmatched[pattern] = None
        return self._add(placed or pattern)

    def add_exception(self, pattern: str) -> list[str]:
        """Adds the patterns that take back a path, and everything below it; returns them."""
        placed = self._place(pattern) or pattern
        below = _everything_below(placed)
        is_file = self._matches(placed) and not self._matches(below)
        self._has_exceptions = True
        return [self._add(f"!{one}") for one in dict.fromkeys((placed, *([] if is_file else [below])))]

    def _place(self, pattern: str) -> str | None:
        """The pattern as it matches something: from the root, or else further down."""
        if self._matches(pattern):
            return pattern
        below = f"**/{pattern}"
        return below if not pattern.startswith("/") and self._matches(below) else None

    def _add(self, pattern: str) -> str:
        """Adds a pattern as the last one, since the last one that matches a path wins.

        An exception for the files of a folder would win over a pattern for the folder, so after an exception
        the files get a pattern of their own.
        """
        negated = pattern.startswith("!")
        below = [_everything_below(pattern)] if self._has_exceptions and not negated else []
        for one in dict.fromkeys((pattern, *below)):
            self.globs.pop(one, None)
            self.globs[one] = None
        return pattern

    def add_names(self, text: str, paths: Mapping[str, str]) -> None:
        """Adds what a text was taken to mean: paths as people read them, and their patterns."""
        self.resolved[text] = tuple(paths)
        for pattern in paths.values():
            self._add(pattern)


def _everything_below(pattern: str) -> str:
    """The pattern for all that is in a folder which a pattern matches."""
    body = pattern.removesuffix("/")
    if body.endswith("/**"):
        return body
    return f"{body}/**" if "/" in body else f"**/{body}/**"


def _resolve_text(text: str, placed: str, names: _Names, found: _ResolvedSoFar) -> None:
    """One boundary as it was written. `placed` is the same with its paths relative to the repository."""
    whole = unquote(placed)
    if not whole:
        return
    if names.has(whole):
        found.add_pattern(_as_pattern(whole, names))
        return
    if exception := _exception(whole, names):
        kept, lifted = exception
        patterns = [found.add_pattern(path) for path in kept]
        patterns += [one for path in lifted for one in found.add_exception(path)]
        found.resolved[text] = tuple(patterns)
        return
    parts = [_clean(part, names) for part in split_list(whole)]
    if any(names_the_opposite(part) for part in parts if not names.has(part)):
        found.unenforced[text] = None
        return
    spelled = {part: _spelled(part, names) for part in parts}
    named = {part: names.named_in(part) for part in parts if not spelled[part]}
    is_list = all(spelled[part] or _is_one_word(part) for part in parts)
    if not (is_list or any(spelled.values()) or any(named.values())):
        found.unenforced[text] = None
        return
    for part in parts:
        if spelled[part]:
            patterns = [found.add_pattern(path) for path in spelled[part]]
            if patterns != [part]:
                found.resolved[part] = tuple(patterns)
        elif named[part]:
            found.add_names(part, named[part])
        elif is_list and not part.startswith("#"):
            found.add_pattern(part)  # nothing has this name yet; should it come, it is meant
        else:
            found.unenforced[part] = None


def _exception(text: str, names: _Names) -> tuple[list[str], list[str]] | None:
    """The paths on both sides of `X except Y`, if both sides name nothing but paths.

    A list after the exception may continue the list of X (`db except db/a, src/auth`), so each member has to
    be in X.
    """
    halves = split_exception(text)
    if halves is None:
        return None
    kept, lifted = (
        [_paths_alone(_clean(part, names), names) for part in split_list(half)] for half in halves
    )
    if not (kept and lifted and all(kept) and all(lifted)):
        return None
    protected, opened = (
        [path for paths in kept for path in paths],
        [path for paths in lifted for path in paths],
    )
    inside = all(any(lies_below(path, above) for above in protected) for path in opened)
    return (protected, opened) if inside or len(opened) == 1 else None


def _paths_alone(part: str, names: _Names) -> list[str]:
    """The path or pattern that a part consists of; empty if it says more, or takes paths back itself."""
    if not (names.has(part) or _is_one_word(unquote(part))):
        return []
    return [path for path in _spelled(part, names) if not path.startswith("!")]


def _clean(text: str, names: _Names) -> str:
    """A part of a boundary without quotes, notes and punctuation around it, unless these are in a name."""
    return text if names.has(text) else unquote(strip_ending(without_notes(text)))


def _spelled(text: str, names: _Names) -> list[str]:
    """The paths and patterns that a part of a boundary spells out, as patterns."""
    if names.has(text) or (_is_one_word(text) and _is_pattern(text)):
        return [_as_pattern(text, names)]
    if not _is_one_word(prefix := fixed_prefix(text)) and names.has(prefix):
        return [_as_pattern(text, names)]
    pieces = [*quoted(text), *bare_words(_without_quoted(text))]
    strong = [piece for piece in pieces if _is_spelled(piece, names)]
    return list(dict.fromkeys(_as_pattern(piece, names) for piece in strong))


def _without_quoted(text: str) -> str:
    for piece in quoted(text):
        text = re.sub(rf"[`\"\u201c]{re.escape(piece)}[`\"\u201d]", " ", text)
    return text


def _is_spelled(piece: str, names: _Names) -> bool:
    """Whether a word among others is a path: it exists, or it could be nothing else."""
    return looks_like_path(piece) and not _is_choice(piece, names)


def _is_choice(word: str, names: _Names) -> bool:
    """`read/write`, `and/or`: words with a slash that are no path here, and do not look like one to be."""
    plain = re.fullmatch(r"[A-Za-z]+/[A-Za-z]+", word) is not None
    return plain and not names.has(word) and not names.has(word.partition("/")[0])


def _as_pattern(path: str, names: _Names) -> str:
    """A path as it was written, as a pattern that means just that."""
    path = re.sub(r"(?<=\w):\d+(?:[-:]\d+)?$", "", path)
    literal = path.removesuffix("/**").removesuffix("/")
    if _GLOB.search(literal) and names.has(literal):
        return tidy_path(_escape(literal) + path[len(literal) :])
    tidied = tidy_path(path)
    file = tidied.removesuffix("/**").removesuffix("/")
    return file if file != tidied and names.is_file(file) else tidied


def fixed_prefix(pattern: str) -> str:
    """The directory or file below which everything that a pattern can match lies; empty for anywhere."""
    body = pattern.strip().removeprefix("./").replace("/./", "/").rstrip("/")
    if "/" not in body:
        return ""
    fixed = []
    for part in body.removeprefix("/").split("/"):
        if _GLOB.search(part) or "\\" in part:
            break
        fixed.append(part)
    return "/".join(fixed)


def _is_one_word(text: str) -> bool:
    return not any(char.isspace() for char in text)


def _is_pattern(text: str) -> bool:
    """Something for the guard as it stands: a pattern, or a path."""
    if text.startswith("!"):
        return True
    if text.startswith("#"):
        return False  # for the guard this is a comment
    return text == "." or looks_like_path(text) or _GLOB.search(text) is not None


def _folders_of(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if path.endswith("/")]


def _escape(path: str) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", path).replace(" ", "\\ ")


# How paths are written in them.

_QUOTES = "`'\"\u2018\u2019\u201c\u201d"
_EXCEPT = regex(
    r"[,;]?\s+(?:except(?:ing)?(?:\s+for)?|excluding|but\s+not|other\s+than|(?:apart|aside)\s+from"
    r"|with\s+the\s+exception\s+of):?\s+",
    re.IGNORECASE,
)


def within_root(text: str, roots: Iterable[str]) -> str:
    """The text with paths below one of `roots` (absolute, `$PWD`) as paths that start at the repository."""
    for root in sorted(roots, key=len, reverse=True):
        text = re.sub(rf"(?<![^\s,;:=(\[{{{_QUOTES}]){re.escape(root)}(?![\w.-])/?", "/", text)
    return text


def quoted(text: str) -> list[str]:
    """What stands in backticks or double quotes."""
    return [
        one or two for one, two in re.findall(r"`([^`]+)`|[\"\u201c]([^\"\u201c\u201d]+)[\"\u201d]", text)
    ]


def tidy_path(path: str) -> str:
    """A path or pattern as git's patterns want it: forward slashes, no `.` and `..`, `./` at the root."""
    negated = path.startswith("!")
    body = re.sub(r"\\(?=\w)", "/", path[negated:].strip())
    anchored = body.startswith("/") or body == "." or body.startswith("./")
    parts: list[str] = []
    for part in body.split("/"):
        if part == ".." and parts and parts[-1] != ".." and not _GLOB.search(parts[-1]):
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts:
        return ("!" * negated + "/**") if anchored else path
    is_folder = body.endswith(("/", "/.", "/.."))
    return "!" * negated + "/" * anchored + "/".join(parts) + "/" * is_folder


def split_exception(text: str) -> tuple[str, str] | None:
    """The two sides of `X except Y`; None if a text makes no exception, or more than one."""
    halves = _EXCEPT.split(text)
    return (halves[0], halves[1]) if len(halves) == 2 else None


def lies_below(path: str, pattern: str) -> bool:
    """Whether a path or pattern is below the folder that a pattern without other wildcards covers."""
    folder = pattern.strip("/").removesuffix("/**").casefold()
    return path.strip("/").casefold().startswith(f"{folder}/")
