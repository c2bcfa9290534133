"""Path patterns exactly as git's ignore files mean them, one entry at a time.

A pattern with a slash is anchored where it was written, one without matches a name at any depth; `*` and `?`
stop at a slash, `**` does not; a trailing slash asks for a directory; `!` takes back; the last match wins.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property, lru_cache

from headgate.first_use import dataclass, regex

_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NEVER = "(?!)"
_WILD, _UNSURE = regex(r"[*?/]+"), regex(r"[\[\\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern. `by_name` rules look at the last component only."""

    regex: re.Pattern[str]
    negated: bool
    dirs_only: bool
    by_name: bool
    literal: str
    """What every path that it matches has in it; empty if that is not known."""


class Rules:
    """The patterns of one ignore file, or of one list in the configuration."""

    def __init__(self, lines: Iterable[str], *, ignore_case: bool = False) -> None:
        self._fold = ignore_case
        rules = [rule for line in lines if (rule := parse_rule(fold_case(line) if ignore_case else line))]
        self._rules = tuple(reversed(rules))
        # Most entries match nothing: one alternation each says so before the rules are tried one by one.
        self._any_name = _alternation(rule for rule in rules if rule.by_name)
        self._any_path = _alternation(rule for rule in rules if not rule.by_name)
        literals = {rule.literal for rule in rules if not rule.negated}
        # Without any of these a path is not covered: that is known four times sooner.
        self._hint = regex("|".join(map(re.escape, sorted(literals)))) if all(literals) else None
        self._own = lru_cache(maxsize=8192)(lambda path: self._verdict(path, True))
        self._below = lru_cache(maxsize=8192)(self._directory_verdict)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, *, is_dir: bool) -> bool | None:
        """True where the last rule to match says yes, False where it takes back, None where none matches."""
        if self._fold:
            path = fold_case(path)
        return self._verdict(path, is_dir)

    def covers(self, path: str) -> bool:
        """Whether a file is meant: by its own path, or else by the nearest directory above it that is."""
        return self.may_cover(path) and bool(self._file_verdict(path))

    def covered(self, paths: Iterable[str]) -> list[str]:
        """Those of many files that are meant."""
        if any(rule.negated for rule in self._rules) or self._fold:
            return list(filter(self.covers, paths))
        return list(filter(self._whole.fullmatch, paths))

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        """What is meant, by a path or by a directory above it: asked once, not for each directory."""
        parts = []
        for rule in self._rules:
            before, below = "(?:.*/)?" if rule.by_name else "", "/.*" if rule.dirs_only else "(?:/.*)?"
            parts.append(f"{before}(?:{rule.regex.pattern}){below}")
        return regex("|".join(parts) or _NEVER, re.DOTALL)

    def may_cover(self, path: str) -> bool:
        """Whether a file can be meant, or one of a name that is a part of it."""
        return self._hint is None or self._hint.search(fold_case(path) if self._fold else path) is not None

    def takes_back(self, path: str) -> bool:
        """Whether a rule with `!` decides about a file, by its own path or the nearest directory above it."""
        return self._file_verdict(path) is False

    def _file_verdict(self, path: str) -> bool | None:
        if self._fold:
            path = fold_case(path)
        own = self._verdict(path, False)
        return self._below(path.rpartition("/")[0]) if own is None else own

    def _verdict(self, path: str, is_dir: bool) -> bool | None:
        name = path[path.rfind("/") + 1 :]
        by_name = self._any_name is not None and self._any_name.fullmatch(name) is not None
        by_path = self._any_path is not None and self._any_path.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for rule in self._rules:
            if (is_dir or not rule.dirs_only) and rule.regex.fullmatch(name if rule.by_name else path):
                return not rule.negated
        return None

    def _directory_verdict(self, path: str) -> bool | None:
        while path:
            own = self._own(path)
            if own is not None:
                return own
            path = path.rpartition("/")[0]
        return None


def fold_case(path: str) -> str:
    """The form in which spellings that some file systems take for one file are equal."""
    return path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()


@lru_cache(maxsize=4096)  # the same lists are read for every task, several times
def parse_rule(line: str) -> Rule | None:
    """A line of an ignore file as a rule; None for blank lines and comments."""
    line = line.removesuffix("\n").removesuffix("\r")
    if line.startswith("#"):
        return None
    line = _trim_spaces(line)
    negated = line.startswith("!")
    pattern = line[1:] if negated else line
    dirs_only = pattern.endswith("/")
    if dirs_only:
        pattern = pattern[:-1]
    if not pattern:
        return None
    by_name = "/" not in pattern
    translated = _translate(pattern if by_name else pattern.removeprefix("/"))
    literal = max(_WILD.split(_UNSURE.split(pattern)[0]), key=len)
    return Rule(regex(translated, re.DOTALL), negated, dirs_only, by_name, literal)


def expand_braces(pattern: str, limit: int = 64) -> list[str]:
    """`*.{ts,tsx}` as `*.ts` and `*.tsx`: shells and ripgrep know braces, git's patterns do not."""
    done: list[str] = []
    pending = [pattern]
    while pending and len(done) + len(pending) <= limit:
        text = pending.pop(0)
        group = re.search(r"\{([^{}]*,[^{}]*)\}", text)
        if group is None:
            done.append(text)
        else:
            pending += [text[: group.start()] + part + text[group.end() :] for part in group[1].split(",")]
    return list(dict.fromkeys(done + pending))


def _trim_spaces(line: str) -> str:
    trimmed = line.rstrip(" ")
    backslashes = len(trimmed) - len(trimmed.rstrip("\\"))
    return trimmed + " " if backslashes % 2 and len(trimmed) < len(line) else trimmed


def _alternation(rules: Iterable[Rule]) -> re.Pattern[str] | None:
    parts = [f"(?:{rule.regex.pattern})" for rule in rules]
    return regex("|".join(parts), re.DOTALL) if parts else None


_STAR, _SLASH, _ANY_FOLDERS, _ANYTHING = "*", "/", "**/", "**"
"""What a pattern is made of besides what matches one character; no such text is a regular expression here."""


def _translate(pattern: str) -> str:
    """The pattern as a regular expression that takes no more than quadratic time.

    Of several wildcards only the last has to try more than one length: what stands between two of them may
    as well be taken where it is found first.
    """
    tokens = _tokens(pattern)
    if tokens is None:
        return _NEVER
    chunks: list[list[str]] = [[]]
    for token in tokens:
        if token == _ANY_FOLDERS:
            chunks.append([])
        else:
            chunks[-1].append(token)
    first, *others = map(_chunk, chunks)
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>(?:.*?/)??{chunk})" for chunk in between) + f"(?:.*/)?{last}"


def _chunk(tokens: list[str]) -> str:
    """What has no `**/` in it, one path component after the other."""
    out: list[str] = []
    start = 0
    for index, token in enumerate([*tokens, _SLASH]):
        if token in (_SLASH, _ANYTHING):
            out.append(_component(tokens[start:index]))
            if index < len(tokens):
                out.append("/" if token == _SLASH else ".*")
            start = index + 1
    return "".join(out)


def _component(tokens: list[str]) -> str:
    """Characters and stars, without a slash."""
    parts: list[str] = [""]
    for token in tokens:
        if token == _STAR:
            parts.append("")
        else:
            parts[-1] += token
    first, *others = parts
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{part})" for part in others[:-1]) + f"[^/]*{others[-1]}"


def _tokens(pattern: str) -> list[str] | None:
    """The parts of a pattern, what matches one character as a regular expression; None if nothing matches."""
    out: list[str] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        index += 1
        if char == "*":
            start = index - 1
            while index < len(pattern) and pattern[index] == "*":
                index += 1
            after_slash = start == 0 or pattern[start - 1] == "/"
            if index - start == 2 and after_slash and pattern[index : index + 1] == "/":
                index += 1
                if out[-1:] != [_ANY_FOLDERS]:
                    out.append(_ANY_FOLDERS)
            elif index - start == 2 and after_slash and index == len(pattern):
                out.append(_ANYTHING)
            else:
                out.append(_STAR)
        elif char == "?":
            out.append("[^/]")
        elif char == "/":
            out.append(_SLASH)
        elif char == "[":
            text, index = _translate_class(pattern, index)
            out.append(text)
        elif char == "\\":
            if index == len(pattern):
                return None
            out.append(_literal(pattern[index]))
            index += 1
        else:
            out.append(_literal(char))
    return out


def _literal(char: str) -> str:
    """One character, in a form that is none of the wildcards."""
    return "[/]" if char == "/" else "[*]" if char == "*" else re.escape(char)


def _translate_class(pattern: str, index: int) -> tuple[str, int]:
    """The class that starts behind `[`, and where it ends. One never closed matches nothing, as in git."""
    negated = pattern[index : index + 1] in ("!", "^")
    index += negated
    items: list[str] = []
    first = True
    while index < len(pattern):
        char = pattern[index]
        if char == "]" and not first:
            body = "".join(items)
            if negated:
                return f"[^/{body}]", index + 1
            return (f"(?!/)[{body}]" if body else _NEVER), index + 1
        first = False
        if char == "[" and pattern[index + 1 : index + 2] == ":":
            end = pattern.find(":]", index + 2)
            name = pattern[index + 2 : end]
            if end < 0 or name not in _POSIX:
                return _NEVER, len(pattern)
            items.append(_POSIX[name])
            index = end + 2
            continue
        low, index = _class_char(pattern, index)
        if pattern[index : index + 1] == "-" and pattern[index + 1 : index + 2] not in ("", "]"):
            high, index = _class_char(pattern, index + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        items.append(re.escape(low))  # git compares a range's start by itself: [b-a] matches b
    return _NEVER, len(pattern)


def _class_char(pattern: str, index: int) -> tuple[str, int]:
    if pattern[index] == "\\" and index + 1 < len(pattern):
        return pattern[index + 1], index + 2
    return pattern[index], index + 1
