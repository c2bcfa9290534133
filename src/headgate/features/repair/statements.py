"""Small changes to whole statements: removed, moved, unwrapped, or copied from elsewhere in the same file.

What is missing in one function often stands in another: programs repeat themselves. Pure and deterministic.
"""

import ast
import builtins
from collections.abc import Container, Iterator
from dataclasses import field
from functools import cached_property
from typing import TypeGuard

from headgate.features.repair.outside_effects import reaches_out, root_name
from headgate.first_use import dataclass

MOST_COPIED = 8
"""How many statements from elsewhere are tried at one place."""
MOST_MOVED = 4
"""How many statements of its block a statement is moved over."""
COUNTED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.Div, ast.Pow),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mod, ast.Div),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr, ast.BitXor),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.BitXor: (ast.BitAnd, ast.BitOr),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
"""What may stand in the place of an operator of arithmetic."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = tuple[str, str, str]
"""What was there, what is there now, both in a few words, and the file."""


@dataclass
class StatementChanges:
    """The changes to the statement that begins on a line of a file."""

    source: str
    module: ast.Module
    function: Function | None
    """The function around the line."""
    line: int
    parents: dict[ast.AST, ast.AST]
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.source.split("\n")

    def changes(self) -> Iterator[Change]:
        """What becomes of the statement that begins on the line, or stands beside it."""
        for node in ast.walk(self.function or self.module):
            if not isinstance(node, ast.stmt) or node.lineno != self.line or node is self.function:
                continue
            if self._head(node).startswith("elif"):
                yield from self._unwrapped(node)
            elif self._stands_alone(node):
                yield from self._replaced(node)
                yield from self._moved(node)
                yield from self._unwrapped(node)
                yield from self._copied(node)

    def _replaced(self, node: ast.stmt) -> Iterator[Change]:
        texts: list[str] = []
        match node:
            case ast.AugAssign(target, operator, value):
                others = COUNTED.get(type(operator), ())
                texts += [ast.unparse(ast.AugAssign(target, other(), value)) for other in others]
                texts.append(ast.unparse(ast.Assign([target], value, lineno=0)))
            case ast.Assign([target], value) if isinstance(target, ast.Name):
                texts.append(ast.unparse(ast.AugAssign(target, ast.Add(), value)))
            case ast.Break():
                texts += ["continue", ""]
            case ast.Continue():
                texts += ["break", ""]
            case ast.Return() | ast.Expr():
                texts.append("")
        for text in texts:
            yield self._head(node), text or "removed", self._with_statement(node, text)

    def _moved(self, node: ast.stmt) -> Iterator[Change]:
        """A statement behind its block, if it is the last one in it; and to other places in the block."""
        block = self._block(node)
        if len(block) < 2 or not all(map(self._stands_alone, block)):
            return
        parent = self.parents[node]
        before, at = self._head(node), block.index(node)
        if at == len(block) - 1 and isinstance(parent, ast.For | ast.While | ast.If | ast.With):
            yield (
                before,
                "moved behind the block",
                self._with_moved(node, parent.end_lineno or 0, self._indent(parent)),
            )
        first = 1 if _is_docstring(block[0]) else 0
        for distance in range(1, MOST_MOVED + 1):
            if first <= at - distance:
                above = block[at - distance]
                yield before, "moved up", self._with_moved(node, self._start(above) - 1, self._indent(node))
            if at + distance < len(block):
                below = block[at + distance]
                yield before, "moved down", self._with_moved(node, below.end_lineno or 0, self._indent(node))

    def _unwrapped(self, node: ast.stmt) -> Iterator[Change]:
        """What a condition guards, without the condition. That of an `elif` is what remains: `else`."""
        if not isinstance(node, ast.If) or node.orelse:
            return
        head, indent, body = self._head(node), self._indent(node), node.body
        is_other = head.startswith("elif")
        first, last = (node.test.end_lineno or 0) + 1, node.end_lineno or 0
        if body[0].lineno == node.lineno:
            held = _indented("\n".join(map(ast.unparse, body)), indent + "    " * is_other)
        elif is_other:
            held = self.lines[first - 1 : last]
        else:
            held = self._reindented(first, last, self._indent(body[0]), indent)
        if is_other:
            held = [f"{indent}else:", *held]
        yield head, "the condition removed", self._spliced(node.lineno, last, held)

    def _copied(self, node: ast.stmt) -> Iterator[Change]:
        """A statement that another function of the file has, before the line; at a block's end, after it."""
        if self.function is None:
            return
        own = {ast.dump(each) for each in ast.walk(self.function) if isinstance(each, ast.stmt)}
        known = self._names(self.function) | self._global_names
        fitting = [each for each in self._donors if ast.dump(each) not in own and _names_used(each) <= known]
        indent, block = self._indent(node), self._block(node)
        for each in fitting[:MOST_COPIED]:
            text = ast.unparse(each)
            copied = _indented(text, indent)
            start = self._start(node)
            yield "", text, self._spliced(start, start - 1, copied)
            if block and block[-1] is node and not isinstance(node, ast.Return | ast.Raise):
                after = (node.end_lineno or 0) + 1
                yield "", text, self._spliced(after, after - 1, copied)

    @cached_property
    def _donors(self) -> list[ast.stmt]:
        """Calls and assignments to attributes in other functions, those of the same class first."""
        functions = [node for node in ast.walk(self.module) if isinstance(node, Function)]
        around = self.parents.get(self.function) if self.function else None
        functions.sort(key=lambda each: (self.parents.get(each) is not around, abs(each.lineno - self.line)))
        found: dict[str, ast.stmt] = {}
        for function in functions:
            if function is self.function or function.name == "__init__":
                continue
            for node in ast.walk(function):
                if _is_effect(node, self._modules):
                    found.setdefault(ast.dump(node), node)
        return list(found.values())

    @cached_property
    def _modules(self) -> set[str]:
        imports = [each for each in ast.walk(self.module) if isinstance(each, ast.Import | ast.ImportFrom)]
        return {name for each in imports for name in _bound(each)}

    @cached_property
    def _global_names(self) -> set[str]:
        names = {name for node in self.module.body for name in _bound(node)}
        return names | set(dir(builtins))

    @staticmethod
    def _names(function: Function) -> set[str]:
        arguments = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        stored = {
            each.id
            for each in ast.walk(function)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        return arguments | stored

    def beginnings(self) -> Iterator[Change]:
        """With a base case, or with a list made of an argument that is read more than once."""
        function = self.function
        if function is None:
            return
        body = function.body[1:] if _is_docstring(function.body[0]) else function.body
        arguments = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
        if (
            not body
            or not arguments
            or self._start(body[0]) != self.line
            or body[0].lineno == function.lineno
        ):
            return
        indent = self._indent(body[0])
        for name in arguments:
            reads = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
            if len(reads) > 1:
                text = f"{name} = list({name})"
                yield "", text, self._spliced(self.line, self.line - 1, [indent + text])
        for result in (arguments[0], "None", "0", "[]", "''", "False", "True", "1"):
            guard = [f"{indent}if not {arguments[0]}:", f"{indent}    return {result}"]
            text = f"if not {arguments[0]}: return {result}"
            yield "", text, self._spliced(self.line, self.line - 1, guard)

    def _head(self, node: ast.stmt) -> str:
        return (ast.get_source_segment(self.source, node) or "").split("\n")[0]

    def _block(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements that this one stands among."""
        parent = self.parents.get(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and node in block:
                return block
        return []

    @staticmethod
    def _start(node: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        return min([node.lineno, *(each.lineno for each in decorators)])

    def _stands_alone(self, node: ast.stmt) -> bool:
        """Whether nothing else is on the lines of a statement: no `;`, and no `if a:` before it."""
        after = self.lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset :].decode().strip()
        return not self._indent(node).strip() and (not after or after.startswith("#"))

    def _indent(self, node: ast.stmt) -> str:
        """What stands before a statement on its line."""
        return self.lines[node.lineno - 1].encode()[: node.col_offset].decode()

    def _with_statement(self, node: ast.stmt, text: str) -> str:
        """With another statement in the place of this one; without one, if the block has others."""
        is_gone = not text and len(self._block(node)) > 1
        new = [] if is_gone else _indented(text or "pass", self._indent(node))
        return self._spliced(node.lineno, node.end_lineno, new)

    def _with_moved(self, node: ast.stmt, behind: int, indent: str) -> str:
        """With the statement behind another line, at this indentation."""
        first, last = self._start(node), node.end_lineno or 0
        text = self._reindented(first, last, self._indent(node), indent)
        rest = [*self.lines[: first - 1], *self.lines[last:]]
        at = behind - len(text) if behind >= last else behind
        return "\n".join([*rest[:at], *text, *rest[at:]])

    def _reindented(self, first: int, last: int, old: str, new: str) -> list[str]:
        """Some lines with another indentation. Those that begin within a string stay: they are its value."""
        numbered = enumerate(self.lines[first - 1 : last], first)
        return [
            new + line.removeprefix(old) if line.startswith(old) and number not in self._in_strings else line
            for number, line in numbered
        ]

    @cached_property
    def _in_strings(self) -> set[int]:
        return _lines_in_strings(self.module)

    def _spliced(self, first: int, last: int | None, new: list[str]) -> str:
        """With other lines in the place of these."""
        return "\n".join([*self.lines[: first - 1], *new, *self.lines[last or 0 :]])


def _indented(text: str, indent: str) -> list[str]:
    """The lines of statements, with an indentation."""
    inside = _lines_in_strings(ast.parse(text))
    numbered = enumerate(text.split("\n"), 1)
    return [line if number in inside else indent + line for number, line in numbered]


def _lines_in_strings(tree: ast.AST) -> set[int]:
    """The lines that begin within a string."""
    strings = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    )
    return {line for string in strings for line in range(string.lineno + 1, (string.end_lineno or 0) + 1)}


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_effect(node: ast.AST, modules: Container[str]) -> TypeGuard[ast.stmt]:
    """Whether a statement does something that another function may have to do, too.

    Only calls of methods count, and nothing that may reach files or processes: a trial runs it elsewhere than
    it was written for.
    """
    match node:
        case ast.Expr(ast.Call(func=ast.Attribute() as called)) if root_name(called) not in modules:
            pass
        case ast.Assign([ast.Attribute() | ast.Subscript()]) | ast.AugAssign(
            ast.Attribute() | ast.Subscript()
        ):
            pass
        case ast.If(_, [ast.Raise() | ast.Return() | ast.Continue()], []):
            pass
        case _:
            return False
    return not reaches_out(node, modules)


def _names_used(node: ast.stmt) -> set[str]:
    """The names that a statement needs to be there."""
    inner = {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - inner


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module gives to something."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names) | ast.ImportFrom(names=names):
            yield from ((each.asname or each.name).split(".")[0] for each in names)
        case _:
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id
