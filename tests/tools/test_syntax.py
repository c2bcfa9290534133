"""What a model is told when an edit breaks a file's syntax."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.tools.syntax import PARSERS, describe_new_errors, parser_for
from headgate.tree import FileChange

GOOD = {
    "a.py": b"def f():\n    return 1\n",
    "a.pyi": b"def f() -> int: ...\n",
    "a.json": b'{"a": [1, 2]}\n',
    "a.toml": b"[a]\nb = 1\n",
    "a.yaml": b"a: &x 1\nb: *x\n---\n!Custom {c: !!python/name:os.system }\n",
    "b.yml": b"- a\n- b\n",
}
BAD = {
    "a.py": (b"def f():\n    return 1\ndef g()\n    pass\n", "line 3: expected ':'"),
    "a.pyi": (b"def f( -> int: ...\n", "line 1: invalid syntax"),
    "a.json": (b'{"a": 1\n"b": 2}\n', "line 2: Expecting ',' delimiter"),
    "a.toml": (b"[a]\nb = \n", "line 2: Invalid value"),
    "a.yaml": (b"a: 1\nb: [1\n", "line 3: did not find expected ',' or ']'"),
    "b.yml": (b"a: *missing\n", "line 1: undefined alias `missing`"),
}


@pytest.mark.parametrize("path", GOOD)
def test_new_errors_are_told(path: str) -> None:
    bad, told = BAD[path]
    good = GOOD[path]
    assert describe_new_errors([FileChange(path, good, bad)]) == f"Warning: {path} no longer parses: {told}"
    assert describe_new_errors([FileChange(path, None, bad)]) == f"Warning: {path} does not parse: {told}"
    assert describe_new_errors([FileChange(path, bad + b"\n", bad)]) == (
        f"Note: {path} did not parse before and still does not: {told}"
    )
    assert describe_new_errors([FileChange(path, bad, good)]) == ""
    assert describe_new_errors([FileChange(path, None, good)]) == ""
    assert describe_new_errors([FileChange(path, bad, None)]) == ""


def test_every_suffix_is_tested() -> None:
    assert {"." + path.rsplit(".")[-1] for path in [*GOOD, "c.yaml"]} == set(PARSERS)


@pytest.mark.parametrize(
    "path",
    ["a.txt", "Makefile", "a.jsonc", "tsconfig.json", "x/tsconfig.build.json", ".vscode/settings.json"],
)
def test_files_without_a_parser(path: str) -> None:
    assert parser_for(path) is None
    assert describe_new_errors([FileChange(path, b"{}", b"{ // comment\n")]) == ""


def test_a_moved_file_that_was_broken_is_no_news() -> None:
    bad, told = BAD["a.py"]
    changes = [FileChange("a.py", bad, None), FileChange("b.py", None, bad + b"\n")]
    assert describe_new_errors(changes) == f"Note: b.py did not parse before and still does not: {told}"


def test_several_files() -> None:
    changes = [FileChange(f"{n}.json", None, b"{") for n in range(12)]
    told = describe_new_errors(changes).splitlines()
    assert told[0].startswith("Warning: 0.json does not parse: line 1: ")
    assert told[10:] == ["Warning: 2 more files do not parse."]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.py", b"(" * 150 + b")" * 150),
        ("a.py", b"-" * 100_000 + b"1"),
        ("a.py", b"x = " + b"1 + " * 50_000 + b"1"),
        ("a.json", b"[" * 200_000),
        ("a.json", b"1" * 10_000),
        ("a.toml", b"a = " + b"[" * 50_000),
        ("a.toml", b"a = " + b"1" * 10_000),
        ("a.toml", b"a" + b".a" * 90_000 + b" = "),
        ("a.yaml", b"[" * 200_000 + b"]" * 200_000),
        ("a.py", b"f'" + b"{x}" * 200_000 + b"'"),
        ("a.py", b"(" * 2_000_000),
    ],
)
def test_what_no_parser_can_follow_is_not_judged(path: str, data: bytes) -> None:
    told = describe_new_errors([FileChange(path, None, data)])
    assert told == "" or (path == "a.py" and "too many nested parentheses" in told)


@pytest.mark.parametrize(
    ("path", "data", "told"),
    [
        ("a.py", b"x = 1\ny = '\0'\n", "line 2: NUL byte"),
        ("a.py", b"x = '\xe9'\n", "utf-8"),
        ("a.py", b"# coding: nonsense\nx = 1\n", "unknown encoding: nonsense"),
        ("a.json", b'{"a":\n"\xe9"}', "line 2: not valid UTF-8"),
        ("a.toml", b"a = '\xe9'", "line 1: not valid UTF-8"),
        ("a.toml", b"a = 1\nb = [", "line 2: "),
        ("a.yaml", b"a: \x01", "line 1: "),
        ("odd\n.json", b"{", 'Warning: "odd\\n.json" does not parse'),
    ],
)
def test_odd_errors(path: str, data: bytes, told: str) -> None:
    assert told in describe_new_errors([FileChange(path, None, data)])


def test_odd_texts_that_parse() -> None:
    bom = b"\xef\xbb\xbf"
    assert (
        describe_new_errors(
            [FileChange(path, None, bom + GOOD[path]) for path in ("a.py", "a.json", "b.yml")]
        )
        == ""
    )
    assert (
        describe_new_errors([FileChange("a.py", None, "# coding: latin-1\nx = 'é'\n".encode("latin-1"))])
        == ""
    )
    assert describe_new_errors([FileChange("a.py", None, b""), FileChange("a.yaml", None, b"")]) == ""


def test_warnings_do_not_leak() -> None:
    data = b"import re\nre.compile('\\d')\nassert (1, 'x')\nx is 1\n"
    changes = [FileChange("a.py", None, data)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(describe_new_errors, [changes] * 20)) == {""}
        filters = warnings.filters[:1]
    assert caught == []
    assert filters[0][0] == "always"


@given(st.sampled_from(sorted(GOOD)), st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_any_bytes_are_judged(path: str, data: bytes) -> None:
    told = describe_new_errors([FileChange(path, None, data)])
    assert told == "" or told.startswith(f"Warning: {path} does not parse: line ")
    assert "\n" not in told
