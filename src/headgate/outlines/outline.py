"""The types, and how they are written down. Everything is data that JSON can hold."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from headgate.first_use import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """Something that a file defines under a name."""

    kind: str
    """`function`, `class`, `method`, `type`, `constant`, ..."""
    name: str
    signature: str
    """On one line, without the body. Of a constant it is the name alone: a value may be long, or secret."""
    first: int
    """The first line, counted from 1."""
    last: int
    parent: str = ""
    """The definition around it, with those around that: `Outer.Inner`."""

    @property
    def full_name(self) -> str:
        """The name with those of the definitions around it."""
        return f"{self.parent}.{self.name}" if self.parent else self.name


@dataclass(frozen=True, slots=True)
class Layout:
    """What can be counted of how a file is written."""

    indent: str = ""
    """`tab`, or the number of spaces of one step; empty where nothing is indented."""
    long_line: int = 0
    """The length that 99 of 100 lines keep to."""
    single_quoted: int = 0
    double_quoted: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """One file."""

    language: str = ""
    """Empty for plain text."""
    lines: int = 0
    purpose: str = ""
    """The first sentence of the file's docstring or first comment."""
    definitions: tuple[Definition, ...] = ()
    references: Mapping[str, int] = field(default_factory=dict)
    """The names that its code uses, and how often; comments and strings do not count."""
    imports: tuple[str, ...] = ()
    words: Mapping[str, int] = field(default_factory=dict)
    """The stems of all its words, comments and strings included."""
    layout: Layout = Layout()


def encode_outline(outline: Outline) -> bytes:
    """As JSON."""
    return orjson.dumps(outline)


def decode_outline(data: bytes) -> Outline:
    """The inverse of `encode_outline`. ValueError if it is something else."""
    try:
        kept: dict[str, Any] = orjson.loads(data)
        definitions = tuple(Definition(**one) for one in kept.pop("definitions"))
        layout = Layout(**kept.pop("layout"))
        imports = tuple(kept.pop("imports"))
        outline = Outline(definitions=definitions, layout=layout, imports=imports, **kept)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not an outline: {error!r}") from error
    if not _has_its_types(outline):
        raise ValueError("not an outline: a value of another type")
    return outline


def _has_its_types(outline: Outline) -> bool:
    """An index may have been written by somebody else."""
    layout = outline.layout
    if not isinstance(outline.words, dict) or not isinstance(outline.references, dict):
        return False
    texts: list[object] = [outline.language, outline.purpose, layout.indent, *outline.imports]
    numbers: list[object] = [outline.lines, layout.long_line, layout.single_quoted, layout.double_quoted]
    numbers += [*outline.words.values(), *outline.references.values()]
    for one in outline.definitions:
        texts += (one.kind, one.name, one.signature, one.parent)
        numbers += (one.first, one.last)
    return all(type(text) is str for text in texts) and all(
        type(number) is int and number >= 0 for number in numbers
    )
