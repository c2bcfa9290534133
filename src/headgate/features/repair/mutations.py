"""Small changes to one line of Python, as bugs are often one small change away from what was meant.

Textbook operators, the most plausible first: comparisons and their bounds, numbers that are off by one,
arithmetic, conditions, calls and their arguments, parts that change places, statements, names in scope. Pure
and deterministic: the same source gives the same changes.
"""

import ast
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations

from headgate.features.repair.statements import COUNTED, Change, Function, StatementChanges
from headgate.first_use import dataclass
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
_PAIRS = (
    *(("min", "max"), ("any", "all"), ("floor", "ceil"), ("sum", "len"), ("append", "extend")),
    *(("lower", "upper"), ("startswith", "endswith"), ("find", "rfind"), ("lstrip", "rstrip")),
    *(("ljust", "rjust"), ("split", "rsplit"), ("index", "rindex"), ("copy", "deepcopy")),
    *(("pop", "popleft"), ("append", "appendleft"), ("add", "discard"), ("union", "intersection")),
)
_OPPOSITES: dict[str, list[str]] = {}
for _one, _other in (*_PAIRS, *(reversed(pair) for pair in _PAIRS)):
    _OPPOSITES.setdefault(_one, []).append(_other)
MOST_SWAPPED = 6
"""How many pairs of equal form on one line change places."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """The file with one small change, and the change in a few words."""

    source: str
    before: str
    after: str
    rank: int = 0
    """How far down its kind is in the order of what is plausible, with 0 at the top."""

    @property
    def words(self) -> str:
        """What people are told."""
        before, after = (" ".join(text.split())[:200] for text in (self.before, self.after))
        return f"`{before}` became `{after}`" if before else f"`{after}` was added"


def mutations(source: str, line: int) -> Iterator[Mutation]:
    """What one small change to a line can make of a file, the most plausible first; only what compiles."""
    mark = source[: source.startswith("\ufeff")]
    source = source.removeprefix(mark)  # the positions in the syntax tree do not count it
    module = parse_python(source)
    if module is None:
        return
    place = _Place(source, module, line)
    statements = StatementChanges(source, module, place.function, line, place.parents)
    kinds = (
        *map(place.changes, _PLAUSIBLE),
        statements.changes(),
        *map(place.changes, _DOUBTFUL),
        statements.beginnings(),
    )
    seen = {source}
    for rank, changes in enumerate(kinds):
        for before, after, changed in changes:
            if changed not in seen and _compiles(changed):
                seen.add(changed)
                yield Mutation(mark + changed, before, after, rank)


def _compiles(source: str) -> bool:
    """Whether Python would run a file: a `break` outside a loop parses, and takes a trial for nothing."""
    module = parse_python(source)
    if module is None:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(module, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


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

    def changes(self, kind: Callable[["_Place", ast.expr], Iterator[str]]) -> Iterator[Change]:
        """What one kind of change makes of the expressions of the line."""
        for node in self.nodes:
            for text in kind(self, node):
                yield self.text(node), text, self.with_text(node, text)

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
                for other in COUNTED.get(type(operator), ()):
                    yield ast.unparse(ast.BinOp(left, other(), right))
                yield ast.unparse(left)
                yield ast.unparse(right)
                if not isinstance(operator, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
                    yield ast.unparse(ast.BinOp(right, operator, left))
                if isinstance(operator, ast.FloorDiv):  # rounded up
                    more = ast.BinOp(ast.BinOp(left, ast.Add(), right), ast.Sub(), ast.Constant(1))
                    yield ast.unparse(ast.BinOp(more, operator, right))
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
                for other in _OPPOSITES.get(named, ()):
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
                if named == "pop":
                    yield ast.unparse(ast.Call(function, [] if arguments else [ast.Constant(0)], keywords))
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

    def _swap(self, node: ast.expr) -> Iterator[str]:
        """Two parts of one form that change places, in the largest expression that begins on the line."""
        if not isinstance(self.parents.get(node), ast.stmt):
            return
        line = self.lines[self.line - 1].encode()
        called = {each.func for each in ast.walk(node) if isinstance(each, ast.Call)}
        parts = [
            each
            for each in ast.walk(node)
            if isinstance(each, ast.Subscript | ast.Attribute | ast.Name) and each not in called
        ]
        # The largest parts first: of two items of a list, the items and not their positions.
        parts.sort(key=lambda each: (isinstance(each, ast.Name), each.col_offset))
        found = 0
        for one, other in combinations(parts, 2):
            first, last = sorted((one, other), key=lambda each: each.col_offset)
            is_apart = (first.end_col_offset or 0) <= last.col_offset
            if (
                type(one) is type(other)
                and is_apart
                and self.text(one) != self.text(other)
                and found < MOST_SWAPPED
            ):
                found += 1
                texts = (
                    line[node.col_offset : first.col_offset],
                    self.text(last).encode(),
                    line[first.end_col_offset : last.col_offset],
                    self.text(first).encode(),
                    line[last.end_col_offset : node.end_col_offset],
                )
                yield b"".join(texts).decode()

    def _copy(self, node: ast.expr) -> Iterator[str]:
        """What is kept may have to be a copy: whoever has the other name changes it, too."""
        match node, self.parents.get(node):
            case ast.Name(id=name, ctx=ast.Load()), ast.Assign([ast.Attribute() | ast.Subscript()]):
                yield f"list({name})"
                yield f"dict({name})"
            case _:
                pass

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


_PLAUSIBLE = (
    *(_Place._compare, _Place._by_one, _Place._count, _Place._decide),
    *(_Place._call, _Place._swap, _Place._copy),
)
_DOUBTFUL = (_Place._name,)
"""Another name often has the right value by chance."""
