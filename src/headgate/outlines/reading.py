"""One file's outline: by its syntax tree where there is a grammar, else as plain text."""

import re
from collections import Counter
from collections.abc import Mapping

from headgate.first_use import regex
from headgate.outlines.languages import language_of
from headgate.outlines.outline import Layout, Outline
from headgate.outlines.syntax import parse_syntax
from headgate.outlines.words import identifiers_in, words_of_text

MOST_PARSED = 400_000
"""Bytes. A longer file is data, or was written by a program: its first words have to do."""
_MOST_WORDS_READ = 100_000
_LONG_LINE = 2_000
"""Characters. A file whose lines are that long on average was written by a program."""
_MOST_KEPT = 1_500
"""Names, and words, that are kept of one file."""
_PLAIN_COMMENT = regex(r"^(?:#+|//+|/\*+|;+|--+|%+|\"+|<!--+|=+)?\s*(.*?)\s*(?:\*/|-->|=+)?$")
_SENTENCE = regex(r".*?[.!?](?=\s|$)", re.DOTALL)
_LEGAL = regex(r"copyright|licen[sc]e|spdx|all rights reserved|\(c\)", re.IGNORECASE)
_NOISE = regex(
    r"!|\W*-\*-|\W*(?:vim?|eslint|jshint|pylint|noqa|type:|flake8|mypy|coding[:=]|@ts-|istanbul|<\?|doctype)",
    re.I,
)
_MOST_PURPOSE = 160


def outline_file(path: str, data: bytes, *, parse: bool = True) -> Outline:
    """The outline of a file that is not binary. Without `parse` it is read as plain text."""
    text = data[:MOST_PARSED].decode("utf-8", "replace")
    lines = text.split("\n")
    count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if len(data) > MOST_PARSED or len(text) > _LONG_LINE * len(lines):
        return Outline(lines=count, words=most_frequent(words_of_text(text[:_MOST_WORDS_READ])))
    words = most_frequent(words_of_text(text))
    language = language_of(path, data)
    found = parse_syntax(language, data) if parse and language is not None else None
    if found is None or language is None:
        name = "" if language is None else language.name
        references = most_frequent(identifiers_in(text)) if name else {}
        return Outline(name, count, _plain_purpose(lines), (), references, (), words, _layout(lines, ""))
    return Outline(
        language=language.name,
        lines=count,
        purpose=first_purpose(found.comments),
        definitions=found.definitions,
        references=most_frequent(identifiers_in(found.code)),
        imports=found.imports,
        words=words,
        layout=_layout(lines, found.quotes),
    )


def most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent ones, by name where they are equal; in a fixed order."""
    kept = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_KEPT]
    return dict(sorted(kept))


def first_purpose(comments: tuple[str, ...]) -> str:
    """The first sentence of the first comment that says something about the file."""
    for comment in comments:
        lines = [_bare(line) for line in comment.split("\n") if not line.startswith("#!")]
        if _LEGAL.search(comment):
            continue
        said = " ".join(line for line in lines if line and not _NOISE.match(line))
        said = " ".join(said.split())
        if sum(map(str.isalpha, said)) < 8:
            continue
        sentence = _SENTENCE.match(said)
        said = sentence[0] if sentence and len(sentence[0]) > 12 else said
        return said if len(said) <= _MOST_PURPOSE else f"{said[: _MOST_PURPOSE - 4].rstrip()} ..."
    return ""


def _bare(line: str) -> str:
    return line.strip().strip("\"'`/*#!<>;-=").strip()


def _plain_purpose(lines: list[str]) -> str:
    """A heading, or the first line of a text that says something."""
    for line in lines[:40]:
        found = _PLAIN_COMMENT.match(line.strip()[:500])
        said = found[1] if found else ""
        if sum(map(str.isalpha, said)) >= 4 and not _NOISE.match(said) and not _LEGAL.search(said):
            return first_purpose((said + "        ",)) or said
    return ""


def _layout(lines: list[str], quotes: str) -> Layout:
    steps: Counter[str] = Counter()
    before = 0
    for line in lines:
        bare = line.lstrip(" ")
        if not bare.strip():
            continue
        if bare[0] == "\t":
            steps["tab"] += 1
            continue
        depth = len(line) - len(bare)
        if depth - before in (1, 2, 3, 4, 8):
            steps[str(depth - before)] += 1
        before = depth
    lengths = sorted(len(line) for line in lines)
    common = max(steps.items(), key=lambda item: (item[1], item[0]), default=("", 0))[0]
    usual = lengths[len(lengths) * 99 // 100] if lengths else 0
    return Layout(common, usual, quotes.count("'"), quotes.count('"'))
