"""Source as text: where Python functions are and how one is replaced, and whether two versions are the same.

Nothing here runs code. What cannot be parsed has no functions and cannot be replaced. Two versions differ in
layout alone if they are the same program, written with other white space: Python is compared by its syntax
tree, everything else by its lines. In doubt the answer is no: to undo a change that mattered costs more than
to keep one that did not.
"""

import ast
import io
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TypeGuard

from headgate.first_use import dataclass, regex

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_IDLE = (ast.Raise, ast.Pass, ast.Continue, ast.Break, ast.Import, ast.ImportFrom)
_TELLING = regex(r"^\s*(?!(?:else|try|finally)\s*:)\w")
_LONE_RETURN = regex(r"\r(?!\n)")
"""A line break to the parser and to nobody else: its line numbers would not be ours."""
_CODING = regex(r"#!|#.*coding[:=]")
MOST_CHARS = 300_000
"""The time that the parser takes grows faster than the text."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method: its name within the module, and its lines, decorators included."""

    name: str
    first: int
    last: int

    @property
    def short(self) -> str:
        """The name that its `def` has."""
        return self.name.rpartition(".")[2]


def parse_python(source: str) -> ast.Module | None:
    """The syntax tree; None where there is none."""
    if len(source) > MOST_CHARS or _LONE_RETURN.search(source):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def find_functions(source: str) -> tuple[Function, ...]:
    """The module's functions and its classes' methods, in order; what a function holds is part of it."""
    module = parse_python(source)
    return tuple(Function(name, *_lines_of(node)) for name, node in _written(module.body)) if module else ()


def lines_with_logic(source: str) -> frozenset[int]:
    """The lines with something in them to get wrong: no bare `else`, no `pass`, no brackets, no messages."""
    module = parse_python(source)
    if module is None:
        return frozenset()
    idle = {
        line
        for node in ast.walk(module)
        if isinstance(node, _IDLE)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(source.split("\n"), 1)
    return frozenset(number for number, line in lines if number not in idle and _TELLING.search(line))


def insertion_points(source: str, name: str) -> tuple[tuple[int, str], ...]:
    """Where a statement can be added to a function: before which line, and at which indentation."""
    module = parse_python(source)
    place = next((function for function in find_functions(source) if function.name == name), None)
    if module is None or place is None:
        return ()
    lines = source.split("\n")
    points: dict[tuple[int, str], None] = {}
    for node in ast.walk(module):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                points.update(dict.fromkeys(_points_in(body, place, lines)))
    return tuple(sorted(points))


def _points_in(body: list[ast.stmt], place: Function, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Before each statement of a block that lies in the function, and after its last one."""
    for node in body:
        start = _first_line(node)
        if place.first < start <= place.last and not _is_text(node):
            yield start, _indent_of(lines, start)
    last = body[-1]
    if place.first < last.lineno <= place.last and not isinstance(last, _ENDS):
        yield (last.end_lineno or last.lineno) + 1, _indent_of(lines, last.lineno)


def python_fingerprint(source: str) -> str:
    """Stands for what the code does: comments, docstrings and layout do not count. Empty if it is no code."""
    module = parse_python(source)
    if module is None:
        return ""
    for node in ast.walk(module):
        if isinstance(node, (ast.Module, *_DEFINITIONS)) and _is_text(node.body[0] if node.body else None):
            node.body = node.body[1:]
    try:
        return sha256(ast.dump(module).encode("utf-8", "surrogatepass")).hexdigest()
    except RecursionError:
        return ""


def source_excerpt(source: str, first: int, last: int) -> str:
    """Some lines, without the indentation that they share."""
    return textwrap.dedent("\n".join(source.split("\n")[first - 1 : last]))


def with_definitions(source: str, written: str, wanted: str = "") -> str | None:
    """The source with each function that was written in the place of its namesake; None if there is none.

    `wanted` is the function that was asked for: a method may have been written without its class, and what is
    new goes in front of it. Imports that are new are added. Anything else that was written, such as examples
    of use, is left out, and so are functions of which only the head was written.
    """
    module, answer = parse_python(source), parse_python(textwrap.dedent(written))
    if module is None or answer is None:
        return None
    lines = source.split("\n")
    text = textwrap.dedent(written).split("\n")
    known = list(_written(module.body))
    places: dict[int, tuple[int, int, list[str]]] = {}
    added: list[str] = []
    written_names = {name for name, _ in _written(answer.body)}
    bare = "" if wanted in written_names else wanted.rpartition(".")[2]
    for name, node in _written(answer.body):
        place = _place_of(known, wanted if name == bare else name, node)
        if place is not None and not _is_elided(node):
            first, last = _lines_of(place)
            body = _moved(text, node, _indent_of(lines, first))
            if not node.decorator_list:  # they are seldom written out, and seldom meant to go
                body = [*lines[first - 1 : place.lineno - 1], *body]
            places.setdefault(first, (first, last, body))  # of two for one place, the first counts
        elif place is None and "." not in name:
            added += [*_moved(text, node, ""), "", ""]
    edits = list(places.values())
    if not edits:
        return None
    if added:
        asked = next((_lines_of(node)[0] for name, node in known if name == wanted), edits[0][0])
        before = _top_level_start(module, asked)
        edits.append((before, before - 1, added))
    if imports := _new_imports(module, answer, text):
        start = _after_imports(module, lines)
        edits.append((start, start - 1, imports))
    for first, last, new in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        lines[first - 1 : last] = new
    result = "\n".join(lines)
    return result if parse_python(result) else None


def _written(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Functions and methods with their names within the module."""
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _written(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for block in ("body", "handlers", "orelse", "finalbody"):
                for part in getattr(node, block, ()):
                    held = part.body if isinstance(part, ast.ExceptHandler) else [part]
                    yield from _written(held, prefix)


def _place_of(
    known: Sequence[tuple[str, FunctionNode]], name: str, written: FunctionNode
) -> FunctionNode | None:
    """Whose place a function takes: its namesake's, else that of the only one so called in some class.

    Of several that have one name, such as a property and its setter, it is the one with the same decorators.
    """
    same = [node for full, node in known if full == name]
    named = {full for full, node in known if node.name == written.name}
    if not same and len(named) == 1:
        same = [node for full, node in known if full in named]
    alike = [node for node in same if _decorators(node) == _decorators(written)]
    return next(iter([*alike, *same]), None)


def _decorators(node: FunctionNode) -> list[str]:
    return [ast.dump(decorator) for decorator in node.decorator_list]


def _is_elided(node: FunctionNode) -> bool:
    """Whether a body is only hinted at: nothing, `pass` or an ellipsis, besides a docstring."""
    body = node.body[1:] if _is_text(node.body[0]) else node.body
    return all(isinstance(each, ast.Pass) or _is_ellipsis(each) for each in body)


def _is_text(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _first_line(node: ast.stmt) -> int:
    return min((decorator.lineno for decorator in getattr(node, "decorator_list", ())), default=node.lineno)


def _indent_of(lines: list[str], number: int) -> str:
    line = lines[number - 1]
    return line[: len(line) - len(line.lstrip())]


def _moved(text: list[str], node: FunctionNode, indent: str) -> list[str]:
    """The lines of a function, at another indentation; lines of text that it holds stay as they are."""
    first, last = _lines_of(node)
    old = _indent_of(text, first)
    if old == indent:
        return text[first - 1 : last]
    texts = _lines_within_text(node)
    return [
        line if number in texts else (indent + line.removeprefix(old) if line.strip() else "")
        for number, line in enumerate(text[first - 1 : last], first)
    ]


def _lines_within_text(node: FunctionNode) -> set[int]:
    """The lines that begin inside a text of several lines, but for docstrings, whose layout is no matter."""
    docstrings = {
        id(inner.body[0].value)
        for inner in ast.walk(node)
        if isinstance(inner, _DEFINITIONS) and isinstance(inner.body[0], ast.Expr) and _is_text(inner.body[0])
    }
    return {
        line
        for inner in ast.walk(node)
        if (isinstance(inner, ast.JoinedStr) or _is_constant_text(inner)) and id(inner) not in docstrings
        for line in range(inner.lineno + 1, (inner.end_lineno or inner.lineno) + 1)
    }


def _is_constant_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _lines_of(node: FunctionNode) -> tuple[int, int]:
    return _first_line(node), node.end_lineno or node.lineno


def _top_level_start(module: ast.Module, line: int) -> int:
    """Where the top-level statement begins that holds a line."""
    return max(start for start in map(_first_line, module.body) if start <= line)


def _after_imports(module: ast.Module, lines: list[str]) -> int:
    """The line after the docstring and the imports at the top, or after what has to be the first lines."""
    last = sum(1 for line in lines[:2] if _CODING.match(line))
    for node in module.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) and not _is_text(node):
            break
        last = node.end_lineno or node.lineno
    return last + 1


def _new_imports(module: ast.Module, answer: ast.Module, text: list[str]) -> list[str]:
    """The lines of imports that bring a name that the module does not have."""
    imports = [node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom)]
    bound = {alias.asname or alias.name for node in imports for alias in node.names}
    bound |= {node.name for node in module.body if isinstance(node, _DEFINITIONS)}
    new: list[str] = []
    for node in answer.body:
        is_switch = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if isinstance(node, ast.Import | ast.ImportFrom) and not is_switch:
            names = {alias.asname or alias.name for alias in node.names}
            if not names <= bound:
                new += text[node.lineno - 1 : node.end_lineno]
    return new


_PYTHON = frozenset({".py", ".pyi", ".pyw"})


def _suffixes(names: str) -> frozenset[str]:
    return frozenset(f".{name}" for name in names.split())


_LOOSE = _suffixes(
    "c h cc cpp cxx hpp cs java rs css scss less json sql proto glsl d dart js mjs cjs jsx ts mts cts tsx go"
    " kt kts swift rb php lua sh bash zsh pl r ex exs groovy gradle zig vue svelte html htm xml toml ini cfg"
    " txt"
)
"""Indentation means nothing."""
_EXACT = _suffixes("md markdown csv tsv diff patch snap golden")
"""Every space may matter."""
_HERE_DOCUMENT = regex(r"<<[-~]?\s*[\"'`]?[A-Za-z_]|<pre\b|<textarea\b|xml:space", re.IGNORECASE)


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
    return list(_lines(suffix, before)) == list(_lines(suffix, after))


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


def _lines(suffix: str, text: str) -> Iterator[str]:
    """The text's lines without indentation that means nothing; as they are where a string may go on."""
    loose, quoted = suffix in _LOOSE and not _HERE_DOCUMENT.search(text), False
    for line in text.rstrip().split("\n"):
        marks = line.count('"') + line.count("`")
        if not loose or quoted or marks or "'" in line:
            yield line.rstrip()
        elif bare := line.strip():
            yield bare
        quoted ^= marks % 2 == 1
