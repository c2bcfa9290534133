"""Files that are broken, huge, deep or no text at all have an outline nevertheless."""

import os
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.outlines import Outline, OutlinePool, decode_outline, encode_outline, outline_file

NEVER = time.monotonic() + 10_000
BROKEN = b"def ok(a):\n    return a\n\ndef broken(:\n    x = (\n\nclass Later:\n    def g(self): pass\n"
CODE = st.text(alphabet="def class(){}[]:,\n\t \"'#/*=<>ab_\\", max_size=200)


def names(outline: Outline) -> list[str]:
    return [one.full_name for one in outline.definitions]


def test_what_stands_before_and_behind_a_syntax_error_is_found() -> None:
    found = names(outline_file("a.py", BROKEN))
    assert found[0] == "ok"


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    outline = outline_file("a.py", b"def caf\xe9(): pass\ndef tea(): pass  # \xff\xfe\n")
    assert "tea" in names(outline)
    assert decode_outline(encode_outline(outline)) == outline


@pytest.mark.parametrize(
    "data",
    [b"(" * 200_000, b"a.b(" * 50_000, b"[" * 100_000 + b"]" * 100_000, b"x = '" + b"y" * 300_000 + b"'\n"],
    ids=["open brackets", "calls in calls", "lists in lists", "one long line"],
)
@pytest.mark.parametrize("path", ["a.py", "a.js", "a.cpp"])
def test_deep_and_long_files_are_read_in_bounded_time(path: str, data: bytes) -> None:
    # A search through such a tree would take minutes, so that this test would not end.
    assert outline_file(path, data).definitions == ()


def test_a_large_file_has_words_and_nothing_else() -> None:
    outline = outline_file("a.py", b"def totals(): pass\n" * 40_000)
    assert (outline.definitions, outline.language, outline.lines) == ((), "", 40_000)
    assert "total" in outline.words


def test_other_languages_are_plain_text() -> None:
    outline = outline_file("notes.md", b"# How to sail\n\nTake `sail_boat` and go.\n")
    assert (outline.language, outline.purpose, outline.references) == ("", "How to sail", {})
    assert {"sail", "boat"} <= outline.words.keys()


def test_licences_and_editor_lines_are_no_purpose() -> None:
    outline = outline_file(
        "a.py", b"#!/usr/bin/python\n# -*- coding: utf-8 -*-\n# Copyright 2020 X\n\n# Reads mails.\nx = 1\n"
    )
    assert outline.purpose == "Reads mails."


@given(CODE)
def test_ranges_of_lines_are_inside_the_file_and_inside_their_parents(text: str) -> None:
    for path in ("a.py", "a.js"):
        outline = outline_file(path, text.encode())
        assert decode_outline(encode_outline(outline)) == outline
        assert outline == outline_file(path, text.encode())
        for one in outline.definitions:
            assert 1 <= one.first <= one.last <= max(1, outline.lines)
            assert "\n" not in one.signature
            if one.parent:
                around = [other for other in outline.definitions if other.full_name == one.parent]
                assert any(other.first <= one.first and one.last <= other.last for other in around)


@given(st.binary(max_size=300))
def test_any_bytes_have_an_outline(data: bytes) -> None:
    for path in ("a.c", "a.md"):
        outline = outline_file(path, data)
        assert decode_outline(encode_outline(outline)) == outline
        assert all(1 <= one.first <= one.last <= max(1, outline.lines) for one in outline.definitions)


def test_a_process_makes_the_same_outlines() -> None:
    files = {"a.py": BROKEN, "b.go": b"package b\n\nfunc F() {}\n", "odd\udcff.py": b"x = 1\n"}
    made = dict(OutlinePool(files.get).outlines(list(files), NEVER))
    assert made == {path: outline_file(path, data) for path, data in files.items()}


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.abort()",
        "import os; os.read(0, 8); os.write(1, b'\\0\\0\\0\\2{}'); input()",
        "import time; time.sleep(1000)",
    ],
    ids=["crashes", "says something else", "does not answer"],
)
def test_a_process_that_fails_leaves_plain_text(program: str) -> None:
    files = {"a.py": b"# Reads mails.\ndef f(): pass\n", "b.py": b"def g(): pass\n"}
    pool = OutlinePool(files.get, [sys.executable, "-c", program], seconds=0.5)
    made = dict(pool.outlines(list(files), NEVER))
    assert made == {path: outline_file(path, data, parse=False) for path, data in files.items()}
    assert made["a.py"] is not None
    assert made["a.py"].purpose == "Reads mails."


def test_ctrl_c_does_not_reach_a_process_that_parses() -> None:
    program = (
        "import json, os, struct, sys\n"
        "sizes = struct.unpack('>II', sys.stdin.buffer.read(8))\n"
        "sys.stdin.buffer.read(sum(sizes))\n"
        "said = {'lines': os.getpgrp(), 'definitions': [], 'imports': [], 'layout': {}}\n"
        "data = json.dumps(said).encode()\n"
        "sys.stdout.buffer.write(struct.pack('>I', len(data)) + data)\n"
    )
    pool = OutlinePool(lambda path: b"x = 1\n", (sys.executable, "-c", program))
    ((_, outline),) = pool.outlines(["a.py"], time.monotonic() + 20)
    assert outline is not None
    assert outline.lines not in (1, os.getpgrp())


def test_nothing_is_read_after_the_deadline() -> None:
    assert list(OutlinePool(lambda path: b"").outlines(["a.py"], time.monotonic() - 1)) == []


def test_an_error_while_reading_is_raised_where_it_is_waited_for() -> None:
    def read(path: str) -> bytes:
        raise PermissionError(path)

    with pytest.raises(PermissionError):
        list(OutlinePool(read).outlines(["a.py"], NEVER))
