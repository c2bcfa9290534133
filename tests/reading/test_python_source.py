"""Functions in Python source: found, compared, and replaced by what a model wrote."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.reading import (
    find_functions,
    insertion_points,
    lines_with_logic,
    parse_python,
    python_fingerprint,
    source_excerpt,
    with_definitions,
)
from headgate.reading.source_text import Function

CART = '''\
"""A cart."""

import re


def total(prices):
    """The sum."""
    return sum(prices)


class Cart:
    """Prices."""

    limit = 3

    def __init__(self, prices):
        self.prices = prices

    @property
    def size(self):
        return len(self.prices)

    @size.setter
    def size(self, value):
        self.prices = self.prices[:value]

    async def total(self):
        text = """\\
  a

    b
"""
        return total(self.prices), text

    class Inner:
        def get(self): return 1
'''
PIECES = [
    "import re\nfrom os import path as where\n",
    'def plain(a, b=1):\n    """Text."""\n    return a + b\n',
    "def line(x): return x\n",
    "@cached\n@other(1)\ndef wrapped():\n    # a comment\n\n    return 2\n",
    'async def waits():\n    async with a as b:\n        return f"""{b}\n  {b}\n"""\n',
    "def tabs():\n\tif 1:\n\t\treturn 2\n",
    'def quotes():\n    return """one\n\n   two\n\\\n"""\n',
    'class Cart:\n    x = 1\n\n    def get(self):\n        return b"""\n  x\n"""\n\n'
    "    def plain(self):\n        pass\n",
    "class Sized:\n    @property\n    def size(self):\n        return 1\n\n"
    "    @size.setter\n    def size(self, v):\n        self.v = v\n",
    "class Outer:\n\n  class Inner:\n    def deep(self):\n      return {\n'a': 1}\n\n"
    "  def after(self): ...\n",
    "if True:\n    def hidden():\n        return 0\n",
    "def multi(\n    a,\n    b,\n):\n    return (\n        a\n        + b\n    )\n",
    "x = [\n    1,\n]\n",
]
modules = st.permutations(PIECES).flatmap(
    lambda pieces: st.integers(1, len(pieces)).map(lambda count: "\n\n".join(pieces[:count]))
)
FRAGMENTS = [
    "def plain(a):",
    "    return a",
    "class Cart:",
    "    def get(self):",
    "        return 1",
    "@property",
    "def size(self): return 2",
    "import os; import sys",
    "from __future__ import annotations",
    '"""',
    "'''text",
    "    pass",
    "...",
    "x = (",
    ")",
    "\\",
    "\t",
    "\r",
    "\x0c",
    "\0",
    "\ud800",
    "# end",
    "lambda: 0",
    "",
]
fragments = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12)), max_size=12).map("\n".join)


def test_functions_and_methods_are_found_with_their_lines() -> None:
    assert find_functions(CART) == (
        Function("total", 6, 8),
        Function("Cart.__init__", 16, 17),
        Function("Cart.size", 19, 21),
        Function("Cart.size", 23, 25),
        Function("Cart.total", 27, 33),
        Function("Cart.Inner.get", 36, 36),
    )
    assert Function("Cart.total", 1, 2).short == "total"


@pytest.mark.parametrize(
    "source",
    ["def f(:\n", "\0", "x = '\ud800'\n", "(" * 5_000, "x = 1\rdef f(): pass\n", "a = 1\n" * 60_000],
    ids=["syntax", "null", "surrogate", "nested", "lone return", "long"],
)
def test_what_cannot_be_parsed_has_nothing(source: str) -> None:
    assert parse_python(source) is None
    assert find_functions(source) == ()
    assert lines_with_logic(source) == frozenset()
    assert python_fingerprint(source) == ""
    assert insertion_points(source, "f") == ()
    assert with_definitions(source, "def f():\n    return 1", "f") is None


def test_lines_with_something_to_get_wrong() -> None:
    source = (
        "import a\ndef f(x):\n    try:\n        y = (\n            1\n        )\n    finally:\n        pass\n"
    )
    source += "    if x:\n        raise ValueError(\n            x)\n    else:\n        return y\n"
    assert lines_with_logic(source) == {2, 4, 5, 9, 13}


def test_where_a_line_can_be_added() -> None:
    source = 'def f(x):\n    """Text."""\n    for i in x:\n        print(i)\n    return x\n\n\ny = 1\n'
    assert insertion_points(source, "f") == ((3, "    "), (4, "        "), (5, "    "), (5, "        "))
    assert insertion_points(source, "g") == ()


def test_comments_docstrings_and_layout_do_not_count() -> None:
    other = 'def f( a ):\n\n    # why\n    """Other."""\n    return (a+1)\n'
    assert python_fingerprint('def f(a):\n    """Text."""\n    return a + 1\n') == python_fingerprint(other)
    assert python_fingerprint("def f(a):\n    return a + 1\n") != python_fingerprint(
        "def f(a):\n    return 1 + a\n"
    )


def test_an_excerpt_has_no_indentation_of_its_own() -> None:
    assert source_excerpt(CART, 19, 21) == "@property\ndef size(self):\n    return len(self.prices)"


@pytest.mark.parametrize(
    ("wanted", "written", "old", "new"),
    [
        (
            "total",
            "def total(prices):\n    return 1",
            '    """The sum."""\n    return sum(prices)',
            "    return 1",
        ),
        (
            "Cart.__init__",
            "def __init__(self, prices):\n    self.prices = list(prices)",
            "self.prices = prices\n",
            "self.prices = list(prices)\n",
        ),
        (
            "Cart.__init__",
            "  class Cart:\n    def __init__(self, prices):\n      self.prices = list(prices)\n",
            "    def __init__(self, prices):\n        self.prices = prices\n",
            "    def __init__(self, prices):\n      self.prices = list(prices)\n",
        ),
        (
            "Cart.size",
            "@size.setter\ndef size(self, value):\n    self.prices = []",
            "self.prices[:value]",
            "[]",
        ),
        ("Cart.size", "@property\ndef size(self):\n    return 0", "return len(self.prices)", "return 0"),
        (
            "Cart.total",
            "async def total(self):\n    return 3",
            CART[CART.index("        text =") : CART.index("\n\n    class Inner")],
            "        return 3",
        ),
        ("", "def get(self): return 2", "return 1", "return 2"),
        (
            "total",
            "import re\nfrom math import fsum\nimport os.path\n\n"
            "def total(prices):\n    return fsum(prices)\n\n"
            "def total_of(x):\n    return total(x)\n\nprint(total([1]))\n",
            'import re\n\n\ndef total(prices):\n    """The sum."""\n    return sum(prices)\n',
            "import re\nfrom math import fsum\nimport os.path\n\n\n"
            "def total_of(x):\n    return total(x)\n\n\n"
            "def total(prices):\n    return fsum(prices)\n",
        ),
        (
            "Cart.total",
            'async def total(self):\n    """Of\n    all."""\n    return """\n  a\n"""',
            CART[CART.index("        text =") : CART.index("\n\n    class Inner")],
            '        """Of\n        all."""\n        return """\n  a\n"""',
        ),
    ],
    ids=[
        "function",
        "bare method",
        "method in its class",
        "setter",
        "property",
        "method like a function",
        "only one so called",
        "imports and helpers",
        "texts",
    ],
)
def test_a_function_takes_the_place_of_its_namesake(wanted: str, written: str, old: str, new: str) -> None:
    assert CART.count(old) == 1
    assert with_definitions(CART, written, wanted) == CART.replace(old, new)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Subtract it.",
        "x = 1",
        "def other():\n    return 1",
        "def total(prices):\n    ...",
        "def total(prices):\n    'Text.'\n    pass",
        "def total(prices)\n    return 1",
        "class Cart:\n    limit = 4",
    ],
)
def test_what_replaces_nothing(written: str) -> None:
    assert with_definitions(CART, written, "total") is None


def test_new_imports_go_behind_what_has_to_come_first() -> None:
    source = "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\ndef f():\n    return 1\n"
    written = "from __future__ import annotations\nimport math\n\ndef f():\n    return math.pi\n"
    expected = "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport math\ndef f():\n    return math.pi\n"
    assert with_definitions(source, written, "f") == expected


def test_the_first_of_two_for_one_place_counts() -> None:
    source = "def f():\n    return 1\n\n\nx = 1\n"
    written = "def f():\n    a = 2\n    return a\n\ndef f():\n    return 3\n"
    assert with_definitions(source, written, "f") == "def f():\n    a = 2\n    return a\n\n\nx = 1\n"


@settings(max_examples=150)
@given(modules)
def test_replacing_a_function_by_itself_changes_nothing(source: str) -> None:
    assert python_fingerprint(source)
    for function in find_functions(source):
        lines = source.split("\n")[function.first - 1 : function.last]
        if "." not in function.name:
            assert with_definitions(source, "\n".join(lines), function.name) == source
        bare = with_definitions(source, source_excerpt(source, function.first, function.last), function.name)
        assert bare is None or python_fingerprint(bare) == python_fingerprint(source)
    whole = with_definitions(source, source)
    assert whole is None or python_fingerprint(whole) == python_fingerprint(source)


@settings(max_examples=150)
@given(modules, fragments, st.sampled_from(["", "plain", "Cart.get", "Sized.size", "nothing"]))
def test_whatever_is_written_the_result_parses(source: str, written: str, wanted: str) -> None:
    result = with_definitions(source, written, wanted)
    assert result is None or parse_python(result) is not None


@settings(max_examples=100)
@given(fragments, st.text(max_size=40))
def test_no_source_is_too_odd(source: str, written: str) -> None:
    assert lines_with_logic(source) <= set(range(1, source.count("\n") + 2))
    assert bool(python_fingerprint(source)) == (parse_python(source) is not None)
    for name in {function.name for function in find_functions(source)}:
        lines = source.split("\n")
        assert all(1 <= number <= len(lines) + 1 for number, _ in insertion_points(source, name))
    result = with_definitions(source, f"def plain(a):\n    return 5\n{written}", "plain")
    assert result is None or parse_python(result) is not None
