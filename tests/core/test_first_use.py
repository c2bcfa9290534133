"""Expressions and dataclasses that are made at their first use do what others do."""

import copy
import dataclasses
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from headgate.first_use import dataclass, regex


def test_it_finds_what_a_compiled_one_finds() -> None:
    text, flags = r"^(\w+)=(?P<value>\d+)$", re.MULTILINE | re.IGNORECASE
    ours, compiled = regex(text, flags), re.compile(text, flags)
    lines = "a=1\nb=x\nC=3"
    for _ in range(2):  # the first time it is compiled
        assert [found.groups() for found in ours.finditer(lines)] == [("a", "1"), ("C", "3")]
        assert ours.findall(lines) == compiled.findall(lines)
        assert ours.sub(r"\g<value>", lines) == compiled.sub(r"\g<value>", lines) == "1\nb=x\n3"
        assert ours.match("b=x") is ours.fullmatch("b=x") is ours.search("") is None
    assert (ours.pattern, ours.flags, ours.groups) == (text, compiled.flags, 2)
    assert ours.groupindex == compiled.groupindex


def test_bytes() -> None:
    assert regex(rb"\s+").split(b"a \n b") == [b"a", b"b"]


def test_a_wrong_expression_is_found_out_at_its_first_use() -> None:
    wrong = regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.search("(")


@dataclass(frozen=True, slots=True)
class Place:
    row: int
    column: int = 1
    unit: ClassVar[str] = "cells"

    @property
    def both(self) -> tuple[int, int]:
        return self.row, self.column


@dataclass(frozen=True, slots=True)
class NamedPlace(Place):
    names: tuple[str, ...] = ()
    seen: list[str] = dataclasses.field(default_factory=list, compare=False, repr=False)


@dataclass
class Counter:
    start: int
    total: int = dataclasses.field(default=0, kw_only=True)
    past: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.total += self.start


@dataclass(kw_only=True)
class LoudCounter(Counter):
    word: str = "!"

    def __repr__(self) -> str:
        return f"{self.total}{self.word}"


class NamedCounter(Counter):
    name = "n"


def test_the_fields_of_a_class_are_known_before_its_first_instance() -> None:
    @dataclass(slots=True)
    class Pair:
        """Two."""

        left: int
        right: str = "r"

    assert dataclasses.is_dataclass(Pair)
    assert [(field.name, field.type) for field in dataclasses.fields(Pair)] == [("left", int), ("right", str)]
    assert (Pair.__doc__, Pair.__match_args__) == ("Two.", ("left", "right"))


def test_a_frozen_class_with_slots() -> None:
    place = NamedPlace(2, names=("a",))
    assert repr(place) == "NamedPlace(row=2, column=1, names=('a',))"
    assert place == NamedPlace(2, 1, ("a",), ["x"]) != Place(2)
    assert (place.both, place.unit) == ((2, 1), "cells")
    assert hash(place) == hash(NamedPlace(2, names=("a",)))
    assert dataclasses.replace(place, row=3) == NamedPlace(3, names=("a",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        place.row = 3  # type: ignore[misc]
    assert not hasattr(place, "__dict__")
    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place
    match Place(1, 2):
        case Place(row, column):
            assert (row, column) == (1, 2)


def test_a_dataclass_of_the_standard_library_can_inherit_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wide(Place):
        width: int = 2

    assert repr(Wide(1)).endswith("Wide(row=1, column=1, width=2)")
    assert Wide(1).both == (1, 1)


def test_a_class_without_slots() -> None:
    assert repr(Counter(2, total=3)) == "Counter(start=2, total=5, past=[])"
    assert (LoudCounter(start=1, word="?").total, repr(LoudCounter(start=1, word="?"))) == (1, "1?")
    assert (NamedCounter(1).total, NamedCounter(1)) == (1, NamedCounter(1))
    assert Counter(1).past is not Counter(1).past
    assert (Counter.total, hasattr(Counter, "past"), Counter.__hash__) == (0, False, None)
    with pytest.raises(TypeError, match=r"Counter.__init__\(\) missing .*: 'start'"):
        Counter()  # type: ignore[call-arg]


def test_threads_that_make_the_first_instances_at_once() -> None:
    def make(kind: Any) -> Any:
        return kind(1)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):

            @dataclass
            class Kind:
                value: int

            assert {made.value for made in pool.map(make, [Kind] * 16)} == {1}
