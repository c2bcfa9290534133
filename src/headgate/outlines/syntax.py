"""What a syntax tree says of a file: definitions, imports, comments, and the code without those."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from headgate.first_use import dataclass, regex
from headgate.outlines.languages import Language
from headgate.outlines.outline import Definition

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

_DEEPEST = 120
"""How deep definitions are looked for. The time that a query takes grows with the square of the depth."""
_MOST_BESIDE = 20_000
"""Nodes beside each other: of a broken file, or of data. The time grows with the square of them as well."""
_MOST_SIGNATURE = 160
_LONG_STRING = 20
"""Bytes. What is longer is left out of signatures."""
_MOST_DEFINITIONS = 3_000
_MOST_IMPORTS = 200
_NOT_DEFINITIONS = frozenset(["name", "value", "import", "callee", "comment", "string", "purpose"])
_FROM_IMPORT = regex(r"from\s+([\w.]+)\s+import\s+(.*)", re.DOTALL)
_DOTTED = regex(r"[\w.]+")
_PREFIX = regex(rb"[A-Za-z]{0,3}")
_MOST_COMMENTS = 5


@dataclass(frozen=True, slots=True)
class Syntax:
    """What was found in one file."""

    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]
    comments: tuple[str, ...]
    """The first ones: a docstring of the file, then comments as whole blocks."""
    code: str
    """The file with its comments and strings left out."""
    quotes: str
    """The quotation marks with which its strings begin."""


def parse_syntax(language: Language, data: bytes) -> Syntax | None:
    """None where the language's package is missing, or where it would take too long to search the tree."""
    tools = _tools(language)
    if tools is None:
        return None
    from tree_sitter import QueryCursor

    parser, query = tools
    root = parser.parse(data).root_node
    if any(node.child_count > _MOST_BESIDE for node in (root, *root.children[:20])):
        return None
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_DEEPEST)
    found: list[tuple[str, Node, Node, Node]] = []
    imports: list[Node] = []
    comments: list[Node] = []
    strings: list[Node] = []
    docstrings: list[Node] = []
    lists = {"import": imports, "comment": comments, "string": strings, "purpose": docstrings}
    for _, captured in cursor.matches(root):
        for kind, nodes in captured.items():
            if kind in lists:
                lists[kind] += nodes
            elif kind not in _NOT_DEFINITIONS:
                value = captured.get("value", nodes)
                found.append((kind, nodes[0], captured["name"][0], value[0]))
    return Syntax(
        definitions=_definitions(found, *_for_signatures(comments, strings, data)),
        imports=tuple(_imports(language, imports, data)),
        comments=(*(_text(node, data) for node in docstrings[:1]), *_blocks(_leading(comments, found), data)),
        code=_without((*comments, *strings), data),
        quotes="".join(_quote(node, data) for node in strings),
    )


@cache
def _tools(language: Language) -> "tuple[Parser, Query] | None":
    try:
        from tree_sitter import Language as Grammar
        from tree_sitter import Parser, Query

        grammar = Grammar(getattr(import_module(language.package), language.function)())
        return Parser(grammar), Query(grammar, language.query)
    except (ImportError, AttributeError, ValueError):
        return None  # not installed, or of a version with other nodes: it is read as plain text


def _text(node: "Node", data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _blanked(nodes: "Iterable[Node]", data: bytes) -> bytes:
    """The file with spaces in place of nodes."""
    text = bytearray(data)
    for node in nodes:
        start, end = node.start_byte, node.end_byte
        text[start:end] = b" " * (end - start)
    return bytes(text)


def _for_signatures(comments: "list[Node]", strings: "list[Node]", data: bytes) -> tuple[bytes, bytes]:
    """The file without comments, and without long strings as well: a default may be a password."""
    bare = _blanked(comments, data)
    text = bytearray(bare)
    for node in strings:
        size = node.end_byte - node.start_byte
        if size > _LONG_STRING:
            quote = _quote(node, data).encode()
            text[node.start_byte : node.end_byte] = (quote + b"..." + quote).ljust(size)
    return bare, bytes(text)


def _definitions(
    found: "list[tuple[str, Node, Node, Node]]", data: bytes, without_strings: bytes
) -> tuple[Definition, ...]:
    """In the order of the file, each with the names of those around it."""
    # A function that is kept in a constant is a function.
    found.sort(key=lambda one: (one[1].start_byte, -one[1].end_byte, one[0] == "constant", one[2].start_byte))
    out: list[Definition] = []
    around: list[tuple[int, str]] = []
    seen: set[tuple[int, int]] = set()
    for kind, node, name_node, value in found:
        key = (name_node.start_byte, name_node.end_byte)
        if key in seen or len(out) == _MOST_DEFINITIONS:
            continue
        seen.add(key)
        name = " ".join(_text(name_node, data).split())[:_MOST_SIGNATURE]
        while around and around[-1][0] < node.end_byte:
            around.pop()
        parent = around[-1][1] if around else ""
        first, last = node.start_point[0] + 1, node.end_point[0] + 1
        if node.end_point[1] == 0 and last > first:
            last -= 1  # the node ends with a line break
        out.append(
            Definition(kind, name, _signature(kind, name, node, value, without_strings), first, last, parent)
        )
        around.append((node.end_byte, out[-1].full_name))
    return tuple(out)


def _signature(kind: str, name: str, node: "Node", value: "Node", data: bytes) -> str:
    if kind == "constant":
        return name
    body = node.child_by_field_name("body") or value.child_by_field_name("body")
    if body is not None and body.start_byte > node.start_byte:
        text = data[node.start_byte : body.start_byte].decode("utf-8", "replace")
    else:
        text = _text(node, data).partition("\n")[0]
    text = " ".join(text.split()).rstrip("{ ").removesuffix(":").removesuffix("=>").rstrip()
    text = text.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace(" ,", ",")
    return text if len(text) <= _MOST_SIGNATURE else f"{text[: _MOST_SIGNATURE - 4].rstrip()} ..."


def _imports(language: Language, nodes: "list[Node]", data: bytes) -> Iterator[str]:
    """The modules that are imported, each once."""
    seen: dict[str, None] = {}
    for node in nodes[:_MOST_IMPORTS]:
        text = " ".join(_text(node, data).split())
        if language.name == "python":
            seen.update(dict.fromkeys(_python_imports(text)))
        elif bare := text.strip("\"'<>` ")[:200]:
            seen[bare] = None
    yield from list(seen)[:_MOST_IMPORTS]


def _python_imports(text: str) -> Iterator[str]:
    found = _FROM_IMPORT.match(text)
    if not found:
        yield from (part.split()[0] for part in text.removeprefix("import").split(",") if part.split())
        return
    module = found[1]
    yield module
    for part in found[2].strip("() ").split(","):
        name = _DOTTED.match(part.strip())
        if name:
            yield module + name[0] if module.endswith(".") else f"{module}.{name[0]}"


def _leading(comments: "list[Node]", found: "list[tuple[str, Node, Node, Node]]") -> "list[Node]":
    """The comments before the first definition: later ones tell of a part of the file."""
    first = min((one[1].start_byte for one in found if one[0] != "constant"), default=None)
    return [node for node in comments if first is None or node.start_byte < first]


def _blocks(comments: "list[Node]", data: bytes) -> Iterator[str]:
    """The first comments, those on lines that follow each other as one."""
    comments.sort(key=lambda node: node.start_byte)
    block: list[str] = []
    last = -2
    given = 0
    for node in comments:
        if node.start_point[0] > last + 1 and block:
            yield "\n".join(block)
            block = []
            given += 1
            if given == _MOST_COMMENTS:
                return
        block.append(_text(node, data))
        last = node.end_point[0] - (node.end_point[1] == 0)
    if block:
        yield "\n".join(block)


def _without(nodes: "Iterable[Node]", data: bytes) -> str:
    parts: list[bytes] = []
    position = 0
    for start, end in sorted((node.start_byte, node.end_byte) for node in nodes):
        if start > position:
            parts.append(data[position:start])
        position = max(position, end)
    parts.append(data[position:])
    return b" ".join(parts).decode("utf-8", "replace")


def _quote(node: "Node", data: bytes) -> str:
    start = node.start_byte
    prefix = _PREFIX.match(data, start)
    at = prefix.end() if prefix else start
    return data[at : at + 1].decode("utf-8", "replace")
