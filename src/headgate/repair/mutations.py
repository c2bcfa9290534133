"""Small changes to one line of Python, as bugs are often one small change away from what was meant.

Textbook operators, the most promising first: comparisons and their bounds, numbers that are off
by one, arithmetic, conditions, calls and their arguments, names in scope, statements. Pure and deterministic:
the same source gives the same changes.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.reading import parse_python

MOST_NAMES = 8
"""How many other names one name is replaced by."""
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE),
    ast.LtE: (ast.Lt, ast.GtE, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.LtE, ast.Lt),
    ast.Eq: (ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_COUNTED: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
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
_PAIRS = (
    *(("min", "max"), ("any", "all"), ("floor", "ceil"), ("sum", "len"), ("append", "extend")),
    *(("lower", "upper"), ("startswith", "endswith"), ("find", "rfind"), ("lstrip", "rstrip")),
)
_OPPOSITES = dict([*_PAIRS, *((other, one) for one, other in _PAIRS)])
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutation:
    """The file with one small change, and the change in a few words."""

    source: str
    before: str
    after: str


def mutations(source: str, line: int) -> Iterator[Mutation]:
    """What one small change to a line can make of a file; only what parses."""
    module = parse_python(source)
    if module is None:
        return
    place = _Place(source, module, line)
    seen = {source}
    for node, text in place.changes():
        changed = place.with_text(node, text)
        if changed not in seen and parse_python(changed) is not None:
            seen.add(changed)
            yield Mutation(changed, place.text(node), text)
    for before, after, changed in place.moves():
        if changed not in seen and parse_python(changed) is not None:
            seen.add(changed)
            yield Mutation(changed, before, after)


class _Place:
    """A line of a file, and what begins on it."""

    def __init__(self, source: str, module: ast.Module, line: int) -> None:
        self.source, self.line = source, line
        self.lines = source.split("\n")
        functions = [node for node in ast.walk(module) if isinstance(node, Function)]
        around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
        self.function = max(around, key=lambda node: node.lineno, default=None)
        self.module = module
        self.parents = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
        self.nodes = [
            node
            for node in ast.walk(self.function or module)
            if isinstance(node, ast.expr) and node.lineno == line and node.end_lineno == line
        ]

    def text(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.source, node) or ""

    def with_text(self, node: ast.expr, text: str) -> str:
        line = self.lines[node.lineno - 1].encode()
        changed = line[: node.col_offset] + text.encode() + line[node.end_col_offset :]
        return "\n".join([*self.lines[: node.lineno - 1], changed.decode(), *self.lines[node.lineno :]])

    def changes(self) -> Iterator[tuple[ast.expr, str]]:
        """Expressions of the line, and what may stand in their place, kind by kind."""
        for change in (self._compare, self._by_one, self._count, self._decide, self._call, self._name):
            for node in self.nodes:
                for text in change(node):
                    yield node, text

    def _compare(self, node: ast.expr) -> Iterator[str]:
        if not isinstance(node, ast.Compare):
            return
        for place, operator in enumerate(node.ops):
            for other in _COMPARED[type(operator)]:
                ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                yield ast.unparse(ast.Compare(node.left, ops, node.comparators))

    def _by_one(self, node: ast.expr) -> Iterator[str]:
        """Numbers, and expressions where a count or a position is wanted, one more and one less."""
        parent = self.parents.get(node)
        match node:
            case ast.Constant(value=bool() as value):
                yield str(not value)
            case ast.Constant(value=int() as value):
                yield str(value + 1)
                yield f"({value - 1})" if value < 1 else str(value - 1)
                if value not in (0, 1, -1):
                    yield "0"
            case ast.Name() | ast.Attribute() | ast.Call() | ast.BinOp() | ast.Subscript():
                if self._is_counted(node, parent):
                    yield f"{self.text(node)} + 1"
                    yield f"{self.text(node)} - 1"

    @staticmethod
    def _is_counted(node: ast.expr, parent: ast.AST | None) -> bool:
        match parent:
            case ast.Slice() | ast.Compare():
                return True
            case ast.Subscript(slice=inner) if inner is node:
                return True
            case ast.Call(func=ast.Name(id="range")):
                return True
            case ast.Return() if not isinstance(node, ast.Call):
                return True
            case _:
                return False

    def _count(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.BinOp(left, operator, right):
                for other in _COUNTED.get(type(operator), ()):
                    yield ast.unparse(ast.BinOp(left, other(), right))
                yield ast.unparse(left)
                yield ast.unparse(right)
                if not isinstance(operator, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
                    yield ast.unparse(ast.BinOp(right, operator, left))
            case ast.UnaryOp(ast.USub(), operand):
                yield ast.unparse(operand)
            case ast.Slice(lower, upper, None) if lower or upper:
                yield ast.unparse(ast.Slice(upper, lower, None))

    def _decide(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.BoolOp(operator, values):
                other = ast.Or() if isinstance(operator, ast.And) else ast.And()
                yield ast.unparse(ast.BoolOp(other, values))
                for place in range(len(values)):
                    rest = [*values[:place], *values[place + 1 :]]
                    yield ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest))
            case ast.UnaryOp(ast.Not(), operand):
                yield ast.unparse(operand)
            case ast.IfExp(test, body, orelse):
                yield ast.unparse(ast.IfExp(test, orelse, body))
            case _ if isinstance(self.parents.get(node), ast.If | ast.While) and not isinstance(
                node, ast.Compare
            ):
                yield ast.unparse(ast.UnaryOp(ast.Not(), node))

    def _call(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Call(function, arguments, keywords):
                named = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if other := _OPPOSITES.get(named):
                    renamed = (
                        ast.Attribute(function.value, other, ast.Load())
                        if isinstance(function, ast.Attribute)
                        else ast.Name(other, ast.Load())
                    )
                    yield ast.unparse(ast.Call(renamed, arguments, keywords))
                for place in range(len(arguments) - 1):
                    first, second = arguments[place : place + 2]
                    swapped = [*arguments[:place], second, first, *arguments[place + 2 :]]
                    yield ast.unparse(ast.Call(function, swapped, keywords))
                if len(arguments) == 1 and not keywords:
                    yield ast.unparse(arguments[0])
                if isinstance(function, ast.Attribute):
                    yield ast.unparse(function.value)
                for place in range(len(arguments) if len(arguments) > 1 or keywords else 0):
                    yield ast.unparse(
                        ast.Call(function, [*arguments[:place], *arguments[place + 1 :]], keywords)
                    )
                for place in range(len(keywords)):
                    yield ast.unparse(
                        ast.Call(function, arguments, [*keywords[:place], *keywords[place + 1 :]])
                    )

    def _name(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in (names := self._names_in_scope()):
                yield from [other for other in names if other != name][:MOST_NAMES]
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield from [f"self.{other}" for other in self._own_names() if other != name][:MOST_NAMES]

    def _names_in_scope(self) -> list[str]:
        """The arguments and variables of the function, the nearest to the line first."""
        if self.function is None:
            return []
        found = {
            argument.arg: self.function.lineno
            for argument in ast.walk(self.function.args)
            if isinstance(argument, ast.arg)
        }
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.id, node.lineno)
        found.pop("self", None)
        return sorted(found, key=lambda name: abs(found[name] - self.line))

    def _own_names(self) -> list[str]:
        """The attributes of the object that its class sets."""
        return list(
            dict.fromkeys(
                node.attr
                for node in ast.walk(self.module)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and self.text(node.value) == "self"
            )
        )

    def moves(self) -> Iterator[tuple[str, str, str]]:
        """What happens to the whole statement that begins on the line: before, after, and the file."""
        for node in ast.walk(self.function or self.module):
            if isinstance(node, ast.stmt) and node.lineno == self.line and node is not self.function:
                yield from self._replaced(node)
                yield from self._moved(node)
        if self.function is not None:
            yield from self._guarded(self.function)

    def _replaced(self, node: ast.stmt) -> Iterator[tuple[str, str, str]]:
        texts: list[str] = []
        match node:
            case ast.AugAssign(target, operator, value):
                texts += [
                    ast.unparse(ast.AugAssign(target, other(), value)) for other in _COUNTED[type(operator)]
                ]
                texts.append(ast.unparse(ast.Assign([target], value, lineno=0)))
            case ast.Assign([target], value) if isinstance(target, ast.Name):
                texts.append(ast.unparse(ast.AugAssign(target, ast.Add(), value)))
            case ast.Break():
                texts += ["continue", "pass"]
            case ast.Continue():
                texts += ["break", "pass"]
            case ast.Return() | ast.Expr():
                texts.append("pass")
        for text in texts:
            first = self.text(node).split("\n")[0]
            yield first, text, self._with_statement(node, [text])

    def _moved(self, node: ast.stmt) -> Iterator[tuple[str, str, str]]:
        """The last statement of a block, behind the block: it ran once too often, or too early."""
        parent = self.parents.get(node)
        body = getattr(parent, "body", None)
        if (
            not isinstance(parent, ast.For | ast.While | ast.If | ast.With)
            or not body
            or body[-1] is not node
        ):
            return
        if len(body) < 2:
            return
        indent = " " * parent.col_offset
        text = [indent + line.removeprefix(" " * node.col_offset) for line in self._lines_of(node)]
        without = [*self.lines[: node.lineno - 1], *self.lines[node.end_lineno or 0 :]]
        at = (parent.end_lineno or 0) - len(text)
        yield self.text(node), "moved behind the block", "\n".join([*without[:at], *text, *without[at:]])

    def _guarded(self, function: Function) -> Iterator[tuple[str, str, str]]:
        """With a base case at the beginning of the function."""
        body = function.body[1:] if ast.get_docstring(function) else function.body
        arguments = [argument.arg for argument in function.args.args if argument.arg not in ("self", "cls")]
        if not body or not arguments or body[0].lineno != self.line:
            return
        indent = " " * body[0].col_offset
        for result in (arguments[0], "None", "0", "[]", "''", "False", "True", "1"):
            guard = [f"{indent}if not {arguments[0]}:", f"{indent}    return {result}"]
            changed = [*self.lines[: self.line - 1], *guard, *self.lines[self.line - 1 :]]
            yield "", f"if not {arguments[0]}: return {result}", "\n".join(changed)

    def _lines_of(self, node: ast.stmt) -> list[str]:
        return self.lines[node.lineno - 1 : node.end_lineno]

    def _with_statement(self, node: ast.stmt, texts: list[str]) -> str:
        indent = " " * node.col_offset
        new = [indent + text for text in texts]
        return "\n".join([*self.lines[: node.lineno - 1], *new, *self.lines[node.end_lineno or 0 :]])
