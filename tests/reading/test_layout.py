"""What is a change of layout alone, and what only looks like one."""

import pytest

from headgate.reading import same_but_for_layout

LOOP = "def f(xs):\n    s = 0\n    for x in xs:\n        s += x\n        return s\n"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", "f(a,b)\n", "f(\n    a,\n    b,\n)\n"),
        ("a.py", "x = 'a'\n", 'x = "a"\n'),
        ("a.py", "if x:\n  y = 1\n", "if x:\n    y = 1\n"),
        ("a.py", "x = (1 +\n     2)\n", "x = 1 + 2\n"),
        ("a.py", "x = 1\n\n\n\ny = 2\n", "x = 1\ny = 2\n"),
        ("a.py", "x = 1   # one\n", "x = 1  # one\n"),
        ("a.py", "print 'two'   \n", "print 'two'\n"),
        ("a.ts", "  const a = 1\n", "\tconst a = 1\n"),
        ("a.go", "func f() {\n  return\n}\n", "func f() {\n\treturn\n}\n"),
        ("a.c", "int a;\r\n\nint b;\n", "int a;\nint b;\n"),
        ("a.yaml", "a: 1  \n", "a: 1\n"),
        ("Makefile", "all:\n\techo a \n", "all:\n\techo a\n"),
        ("a.txt", "  two\n", "two\n"),
    ],
)
def test_only_layout(path: str, before: str, after: str) -> None:
    assert same_but_for_layout(path, before, after)
    assert same_but_for_layout(path, after, before)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        # The whole fix: a statement moves out of a loop.
        ("a.py", LOOP, LOOP.replace("        return s", "    return s")),
        # Statements change places.
        ("a.py", "close(f)\nread(f)\n", "read(f)\nclose(f)\n"),
        ("a.js", "close(f);\nread(f);\n", "read(f);\nclose(f);\n"),
        ("a.py", "import b\nimport a\n", "import a\nimport b\n"),
        # Spaces in strings.
        ("a.py", "print('a  b')\n", "print('a b')\n"),
        ("a.js", "log('a  b')\n", "log('a b')\n"),
        ("a.js", "log(`a\n  b`)\n", "log(`a\n b`)\n"),
        ("a.js", "x = s.split(/a  b/)\n", "x = s.split(/a b/)\n"),
        ("a.rs", 'let s = "a\n   b";\n', 'let s = "a\n b";\n'),
        ("a.sh", "cat <<EOF\n  a\nEOF\n", "cat <<EOF\na\nEOF\n"),
        ("a.html", "<pre>a  b</pre>\n", "<pre>a b</pre>\n"),
        # A docstring is code, a comment is content.
        ("a.py", 'def f():\n    """Adds  up."""\n', 'def f():\n    """Adds up."""\n'),
        ("a.py", "x = 1  # one\n", "x = 1  # two\n"),
        ("a.py", "x = 1  # noqa\ny = 2\n", "x = 1\ny = 2  # noqa\n"),
        ("a.py", "x = 1\n", "x = 1  # type: ignore\n"),
        # Indentation without a parser for it.
        ("a.py", "if x:\n  print 'a'\n  print 'b'\n", "if x:\n  print 'a'\nprint 'b'\n"),
        ("a.yaml", "a:\n  b: 1\n", "a:\nb: 1\n"),
        ("Makefile", "all:\n    echo\n", "all:\n\techo\n"),
        ("a.hs", "f = do\n  a\n  b\n", "f = do\n  a\n b\n"),
        ("a.nim", "if a:\n  b()\n  c()\n", "if a:\n  b()\nc()\n"),
        ("a.coffee", "if a\n  b()\n", "if a\nb()\n"),
        ("a.pug", "p\n  b\n", "p\nb\n"),
        # A line break may end a statement.
        ("a.js", "return\nx\n", "return x\n"),
        ("a.rb", "a\n-b\n", "a -b\n"),
        ("a.c", "#define A b\nc;\n", "#define A\nb c;\n"),
        ("a.c", "a; // b\nc;\n", "a; // b c;\n"),
        ("a.sql", "a -- b\nc;\n", "a -- b c;\n"),
        ("a.css", ".a\n.b { }\n", ".a.b { }\n"),
        # Tokens that space keeps apart.
        ("a.c", "a - -b;\n", "a --b;\n"),
        ("a.css", ".a .b { }\n", ".a.b { }\n"),
        ("a.css", "a :hover { }\n", "a:hover { }\n"),
        ("a.scss", "margin: -$a -$b;\n", "margin: -$a-$b;\n"),
        ("a.sh", "a= b\n", "a=b\n"),
        ("a.sh", '[ "$a"="b" ]\n', '[ "$a" = "b" ]\n'),
        ("a.rb", "f [1]\n", "f[1]\n"),
        ("a.rb", "puts -x\n", "puts - x\n"),
        ("a.ini", "key = a b\n", "key = ab\n"),
        ("a.csv", "a, b\n", "a,b\n"),
        ("a.md", "a  \nb\n", "a\nb\n"),
        ("a.unknown", "a  b\n", "a b\n"),
    ],
)
def test_more_than_layout(path: str, before: str, after: str) -> None:
    assert not same_but_for_layout(path, before, after)
    assert not same_but_for_layout(path, after, before)


def test_a_text_that_is_too_long_is_not_judged() -> None:
    assert not same_but_for_layout("a.py", "x=1\n" * 100_000, "x = 1\n" * 100_000)
