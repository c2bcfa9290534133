"""Paths as text: whatever a file is called, its shown name can be given back."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import parse_path, show_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("src/a.py", "src/a.py"),
        ("mit Leerzeichen/größe.txt", "mit Leerzeichen/größe.txt"),
        ('say "hi"', '"say \\"hi\\""'),
        ("line\nbreak", '"line\\nbreak"'),
        (" padded", '" padded"'),
        (os.fsdecode(b"latin-\xe9"), '"latin-\\351"'),
        ("back\\slash", '"back\\\\slash"'),
    ],
)
def test_shown(path: str, shown: str) -> None:
    assert show_path(path) == shown
    assert parse_path(shown) == path


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_every_name_comes_back(name: bytes) -> None:
    path = os.fsdecode(name)
    shown = show_path(path)
    assert parse_path(shown) == path
    assert shown.isprintable()
    assert shown.encode()


@given(st.text())
def test_anything_can_be_parsed(text: str) -> None:
    assert isinstance(parse_path(f'"{text}"'), str)
