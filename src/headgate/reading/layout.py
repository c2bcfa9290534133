"""Whether two versions of a file differ in layout alone: the same program, written with other white space.

Python is compared by its syntax tree, everything else by its tokens. In doubt the answer is no: to undo a
change that mattered costs more than to keep one that did not.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from headgate.reading.python_source import parse_python

MOST_CHARS = 300_000
_PYTHON = frozenset({".py", ".pyi", ".pyw"})


def _suffixes(names: str) -> frozenset[str]:
    return frozenset(f".{name}" for name in names.split())


_FREE = _suffixes("c h cc cpp cxx hpp cs java rs css scss less json sql proto glsl d dart")
"""Neither line breaks nor indentation mean anything, except in lines of a preprocessor."""
_LINED = _suffixes(
    "js mjs cjs jsx ts mts cts tsx go kt kts swift rb php lua sh bash zsh pl r ex exs groovy gradle zig vue"
    " svelte html htm xml toml ini cfg txt"
)
"""A line break may end a statement; indentation means nothing."""
_SPACED = _suffixes("css scss less swift rb sh bash zsh pl r ex exs vue svelte html htm xml toml ini cfg txt")
"""Whether there is a space between two tokens matters; how many there are does not."""
_EXACT = _suffixes("md markdown csv tsv diff patch snap golden")
"""Every space may matter."""
_TOKEN = re.compile(
    r"'(?:\\.|[^'\\\n])*'"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|`(?:\\.|[^`\\])*`"
    r"|(?<=[(,=:\[!&|?{};])[ \t]*/(?![/*])(?:\\.|[^/\\\n])+/\w*"
    r"|\w+|[()\[\]{},;]|[\"'`]|[^\w\s()\[\]{},;\"'`]+|\n|[^\S\n]+",
    re.DOTALL,
)
_HERE_DOCUMENT = re.compile(r"<<[-~]?\s*[\"'`]?[A-Za-z_]|<pre\b|<textarea\b|xml:space", re.IGNORECASE)
_COMMENT = ("//", "--", "#")
"""What begins a comment that ends with its line, or a line of a preprocessor."""
_OPENING, _CLOSING = "([{", ")]}"


def same_but_for_layout(path: str, before: str, after: str) -> bool:
    """Whether the two texts of a file mean the same and differ only in how they are laid out."""
    if max(len(before), len(after)) > MOST_CHARS:
        return False
    before, after = (text.replace("\r\n", "\n") for text in (before, after))
    name = path.rpartition("/")[2]
    suffix = f".{name.rpartition('.')[2].lower()}" if "." in name[1:] else ""
    if suffix in _EXACT:
        return False
    if suffix in _PYTHON and (same := _same_python(before, after)) is not None:
        return same
    return list(_tokens(suffix, before)) == list(_tokens(suffix, after))


def _same_python(before: str, after: str) -> bool | None:
    """By syntax tree; docstrings and comments count. None where one of the two does not parse."""
    trees = [parse_python(text) for text in (before, after)]
    if trees[0] is None or trees[1] is None:
        return None
    try:
        if ast.dump(trees[0]) != ast.dump(trees[1]):
            return False
        return _names_and_comments(before) == _names_and_comments(after)
    except (tokenize.TokenError, SyntaxError, RecursionError):
        return None


def _names_and_comments(source: str) -> list[str]:
    """What shows whether a comment was written, removed or moved; the syntax tree answers for the rest."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type in (tokenize.NAME, tokenize.COMMENT)]


def _tokens(suffix: str, text: str) -> Iterator[str]:
    """The text's tokens; whole lines where the language is unknown, or where indentation counts in it."""
    if suffix not in _FREE | _LINED or _HERE_DOCUMENT.search(text):
        yield from (line.rstrip() for line in text.rstrip().split("\n"))
    else:
        yield from _loose_tokens(text, lined=suffix in _LINED, spaced=suffix in _SPACED)


def _loose_tokens(text: str, *, lined: bool, spaced: bool) -> Iterator[str]:
    """Tokens of a language with brackets. Strings are kept whole.

    Where a quotation mark has no partner in its line, a string may go on over several lines: from there on
    lines are kept as they are, up to the next such mark.
    """
    open_brackets: list[str] = []
    quoted, last, space = False, "\n", False
    for line in text.split("\n"):
        tokens = _TOKEN.findall(line + "\n")
        odd = tokens.count('"') + tokens.count("`")
        if quoted or odd or "'" in tokens:
            yield from (line.rstrip(), "\n")
            quoted, last, space = quoted != (odd % 2 == 1), "\n", False
            continue
        ends_comment = any(token.startswith(_COMMENT) for token in tokens)
        for token in tokens:
            if token == "\n" and last != "\n" and (ends_comment or (lined and not _within(open_brackets))):
                yield token
                last, space = token, False
            elif token.isspace():
                space = spaced and last != "\n"
            else:
                yield from ([" "] if space else [])
                yield token.strip()
                last, space = token, False
                if token in _OPENING:
                    open_brackets.append(token)
                elif token in _CLOSING and open_brackets:
                    open_brackets.pop()


def _within(open_brackets: list[str]) -> bool:
    """Whether a line break stands in an expression, which it cannot end."""
    return bool(open_brackets) and open_brackets[-1] in "(["
