"""Boundaries as people write them: patterns, paths, and prose that may name a path."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_GLOB = re.compile(r"[*?\[]")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_AND = re.compile(r"[,;&]|\band\b|\bor\b|\bnor\b", re.IGNORECASE)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_EXCEPTIONS = _set("except excepting excluding but unless only besides outside beyond apart other without")
"""Prose with one of these may mean the opposite of the paths it names."""
_EMPTY_WORDS = _set(
    """
    a an and any anything all also alone are as at avoid be code change changes class classes component
    components content contents dir directories directory do does don dont edit edits everything existing
    file files folder folders for from function functions have i in inside into is it its keep layer leave
    logic may me modify modifying module modules must my name named never no not of on or our package packages
    part parts path paths please related repo repository s should source stay stuff sub subsystem subtree
    suite system t that the their them these they this those to touch touching tree under untouched update us
    we which whole with within you your
    """
)
_SAME = {
    **dict.fromkeys(("authentication", "authorization", "authorisation", "authn", "authz"), "auth"),
    **dict.fromkeys(("configuration", "conf"), "config"),
    "db": "database",
    "documentation": "doc",
    "utility": "util",
    "application": "app",
    "administration": "admin",
    "library": "lib",
    "specification": "spec",
    "environment": "env",
}
_IMPLIED: Mapping[str, frozenset[str]] = {"migration": frozenset({"database", "schema", "sql"})}
"""Words that say nothing more beside this one: migrations are a database's."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What is enforced of a list of boundaries, and what cannot be."""

    globs: tuple[str, ...]
    """Patterns as in .gitignore, for the guard."""
    resolved: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Prose, and the paths that it was taken to mean."""
    unenforced: tuple[str, ...] = ()
    """Prose that names no path here."""

    def describe(self) -> tuple[str, ...]:
        """A line for each boundary in prose, for people."""
        found = [f'Boundary "{text}": {", ".join(paths)}.' for text, paths in self.resolved]
        return (
            *found,
            *(f'Boundary "{text}" is not enforced: it names no path.' for text in self.unenforced),
        )


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

    @cached_property
    def _folded(self) -> set[str]:
        whole = {path.casefold() for path in (*self.files, *self.directories)}
        return whole | {path.rpartition("/")[2] for path in whole}

    def has(self, path: str) -> bool:
        """Whether a pattern without wildcards matches: a whole path, or one name anywhere."""
        return path.casefold().removeprefix("./").strip("/") in self._folded


def resolve_boundaries(boundaries: Iterable[str], files: Iterable[str]) -> Resolved:
    """Takes patterns and paths as they are, and finds the paths that prose means where every word fits.

    `files` are the repository's, relative to its root. They are not looked at where all are patterns.
    """
    names = _Names(files)
    globs: dict[str, None] = {}
    resolved: dict[str, tuple[str, ...]] = {}
    unenforced: dict[str, None] = {}
    for text in dict.fromkeys(text.strip() for text in boundaries):
        plain = text.strip("`'\"")
        if not plain or _is_pattern(plain, names):
            globs.update(dict.fromkeys([plain] if plain else []))
            continue
        for part, found in _resolve(text, names):
            globs.update(dict.fromkeys(found.values()))
            if found:
                resolved[part] = tuple(found)
            else:
                unenforced[part] = None
        if _is_one_word(plain):
            globs[plain] = None  # nothing has this name yet; should it come, it is meant
    return Resolved(tuple(globs), tuple(resolved.items()), tuple(unenforced))


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


def _is_pattern(text: str, names: _Names) -> bool:
    """Something for the guard as it stands: a pattern, or a path."""
    if text.startswith("!"):
        return True
    if text.startswith("#"):
        return False  # for the guard this is a comment
    if not _is_one_word(text):
        return names.has(text) or bool(_GLOB.search(text) and names.has(fixed_prefix(text)))
    return _GLOB.search(text) is not None or _looks_like_path(text) or names.has(text)


def _looks_like_path(text: str) -> bool:
    return "/" in text.strip(".,;:") or re.search(r"\w\.\w|^\.\w", text) is not None


def _resolve(text: str, names: _Names) -> Iterator[tuple[str, dict[str, str]]]:
    """The text with the paths it means and their patterns; an enumeration part by part if need be."""
    if not _EXCEPTIONS.isdisjoint(_words(text)):
        yield text, {}
        return
    found = {path: path for path in _spelled_paths(text, names)} or dict(_fitting_paths(text, names))
    parts = [part.strip() for part in _AND.split(text) if _wanted(part)]
    if found or len(parts) < 2:
        yield text, found
    else:
        yield from ((part, dict(_fitting_paths(part, names))) for part in parts)


def _fitting_paths(text: str, names: _Names) -> Iterator[tuple[str, str]]:
    wanted = _wanted(text)
    taken: list[str] = []
    for directory in names.directories if wanted else ():
        if not any(_is_below(directory, above) for above in taken) and _fits(directory, wanted):
            taken.append(directory)
            yield f"{directory}/", f"/{_escape(directory)}/"
    for file in names.files if wanted else ():
        if not any(_is_below(file, above) for above in taken) and _fits(_without_ending(file), wanted):
            yield file, f"/{_escape(file)}"


def _wanted(text: str) -> set[str]:
    """The words that a path has to have."""
    wanted = {word for word in _name_words(text) if word not in _EMPTY_WORDS}
    for word in list(wanted):
        wanted -= _IMPLIED.get(word, frozenset())
    return wanted


def _spelled_paths(text: str, names: _Names) -> Iterator[str]:
    quoted = [one or two for one, two in _QUOTED.findall(text)]
    for piece in dict.fromkeys([*quoted, *text.split()]):
        path = piece.strip("`'\"(),;:").rstrip(".")
        if _is_one_word(path) and (_GLOB.search(path) or (_looks_like_path(path) and names.has(path))):
            yield path


def _fits(path: str, wanted: set[str]) -> bool:
    """Whether the last name has no word but wanted ones, and the names above it have the rest."""
    above, _, name = path.rpartition("/")
    own = set(_name_words(name))
    return bool(own) and own <= wanted and wanted <= own | set(_name_words(above))


def _name_words(text: str) -> list[str]:
    return [_SAME.get(word, word) for word in map(_singular, _words(text))]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _singular(word: str) -> str:
    if word in _EMPTY_WORDS:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word[:-1]
    return word


def _without_ending(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    stem = name[:1] + name[1:].partition(".")[0]
    return f"{folder}{slash}{stem}"


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _escape(path: str) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", path).replace(" ", "\\ ")
