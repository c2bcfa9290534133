"""Conditions of stages: a small language over results and variables, never `eval`.

`results.STAGE.FIELD` is in the output of a stage, `variables.NAME` is a variable. A value that is not there
is None, and a comparison with it is false. A condition `code:NAME` is a function of the program.
"""

import ast
import re
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple

from headgate.first_use import dataclass, regex

CODE = "code:"
_OF_THE_RUNTIME = ("again", "replan", "suspects", "no_suspects")
_ENDED = regex(r"(?:not )?(?!(?:results|variables)\..*\.)([\w.-]+)\.(passed|failed|skipped)")
_LONGEST = 1_000
_ROOTS = ("results", "variables")

Key = str | int


@dataclass(frozen=True, slots=True)
class Situation:
    """What a condition can look at."""

    results: Mapping[str, Any] = field(default_factory=dict)
    """The output of each stage by its id; None where there is none yet."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    statuses: Mapping[str, str] = field(default_factory=dict)
    """How each stage ended: `completed`, `exhausted`, `skipped` or `failed`; else `running` or `pending`."""


class Reference(NamedTuple):
    """`results.a.b` or `variables["a"]`: where it begins, and the keys that lead to the value."""

    root: str
    keys: tuple[Key, ...]
    column: int


def read_ending(when: str) -> tuple[str, str] | None:
    """The stage that a condition such as `not plan.failed` names, and how it ended; None for other ones."""
    found = _ENDED.fullmatch(when)
    return (found[1], found[2]) if found else None


def is_expression(when: str | None) -> bool:
    """Whether a condition is in the language of this module."""
    if when is None or when in _OF_THE_RUNTIME or when.startswith(CODE):
        return False
    return read_ending(when) is None


def check_condition(when: str) -> None:
    """ValueError if a condition cannot be read; what its names stand for is checked with the flow."""
    if when.startswith(CODE):
        if not when.removeprefix(CODE).strip():
            raise ValueError("`code:` must be followed by the name of a function")
        return
    if re.fullmatch(r"[A-Za-z][\w-]*", when):
        raise ValueError("must be again, replan, or a stage and how it ended, such as `plan.failed`")
    _parse(when)


def references(when: str) -> list[Reference]:
    """The results and variables that an expression names."""
    found = []
    for node in _chains(_parse(when)):
        root, keys = _chain(node)
        found.append(Reference(root, keys, node.col_offset + 1))
    return found


def find_name(keys: Sequence[Key], known: Container[str]) -> str | None:
    """The stage that keys begin with. Its id may itself have dots, so the longest known one counts."""
    for length in range(len(keys), 0, -1):
        name = ".".join(map(str, keys[:length]))
        if name in known:
            return name
    return None


def named_stages(when: str | None, known: Container[str]) -> tuple[str, ...]:
    """The stages that a condition names, as far as they are known."""
    if when is None or when in _OF_THE_RUNTIME or when.startswith(CODE):
        return ()
    if ended := read_ending(when):
        return (ended[0],)
    keys = [each.keys for each in references(when) if each.root == "results"]
    return tuple(dict.fromkeys(name for each in keys if (name := find_name(each, known))))


def rename_stages(when: str, names: Mapping[str, str]) -> str:
    """The condition with other names for stages."""
    if when in _OF_THE_RUNTIME or when.startswith(CODE):
        return when
    if ended := read_ending(when):
        is_not = "not " if when.startswith("not ") else ""
        return f"{is_not}{names.get(ended[0], ended[0])}.{ended[1]}"
    tree = ast.parse(when.strip(), mode="eval")
    return ast.unparse(_Renamer(names).visit(tree))


class _Renamer(ast.NodeTransformer):
    """Puts other names for stages into `results.NAME`."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._renamed(node, node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return self._renamed(node, key)

    def _renamed(self, node: ast.Attribute | ast.Subscript, key: object) -> ast.AST:
        of_results = isinstance(node.value, ast.Name) and node.value.id == "results"
        if of_results and isinstance(key, str) and key in self._names:
            return ast.Subscript(node.value, ast.Constant(self._names[key]), ast.Load())
        return self.generic_visit(node)


def holds(when: str, situation: Situation) -> bool:
    """Whether an expression is true."""
    return bool(_value(_parse(when), situation))


# Reading: what is not allowed here is refused when the flow is loaded.


@lru_cache(maxsize=256)
def _parse(when: str) -> ast.expr:
    if len(when) > _LONGEST:
        raise ValueError(f"a condition has at most {_LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # an escape in a text is no news to anybody
            parsed = ast.parse(when.strip(), mode="eval").body
    except SyntaxError as error:
        column = error.offset if error.lineno == 1 and error.offset else len(when) + 1
        raise ValueError(f"cannot be read at column {column}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ValueError("cannot be read") from None
    _check(parsed)
    return parsed


def _refuse(node: ast.AST, message: str) -> ValueError:
    return ValueError(f"{message} (column {getattr(node, 'col_offset', 0) + 1})")


def _check(node: ast.expr) -> None:
    match node:
        case ast.Constant(value=str() | int() | float() | None):
            return
        case ast.BoolOp(values=inner) | ast.List(elts=inner) | ast.Tuple(elts=inner) | ast.Set(elts=inner):
            parts = list(inner)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            parts = [operand]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = [left, *others]
            is_none = any(isinstance(part, ast.Constant) and part.value is None for part in parts)
            if any(isinstance(op, ast.Is | ast.IsNot) for op in ops) and not is_none:
                raise _refuse(node, "`is` is for None: use `==`")
        case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
            parts = [argument]
        case ast.Attribute() | ast.Subscript():
            _chain(node)
            return
        case ast.Name(id=name) if name in _ROOTS:
            raise _refuse(node, f"`{name}` alone is not a value: write `{name}.NAME`")
        case ast.Name(id=name):
            known = "there are `STAGE.passed`, `results.STAGE.FIELD` and `variables.NAME`"
            raise _refuse(node, f'unknown name "{name}": {known}')
        case _:
            raise _refuse(node, "only comparisons, and, or, not, in, len() and plain values are allowed")
    for part in parts:
        _check(part)


def _chain(node: ast.expr) -> tuple[str, tuple[Key, ...]]:
    """What `results.a["b"][0]` begins with, and its keys. ValueError if it is anything else."""
    keys: list[Key] = []
    while True:
        match node:
            case ast.Attribute(value=inner, attr=name):
                keys.append(name)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
                keys.append(key)
            case ast.Subscript(
                value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as key))
            ):
                keys.append(-key)
            case ast.Name(id=name) if name in _ROOTS:
                return name, tuple(reversed(keys))
            case ast.Name():
                _check(node)
                raise AssertionError("a name that is no root is refused")
            case _:
                raise _refuse(node, "only results and variables have fields")
        node = inner


def _chains(node: ast.AST) -> Iterator[ast.expr]:
    """The outermost accesses in an expression."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        yield node
        return
    for inner in ast.iter_child_nodes(node):
        yield from _chains(inner)


# Evaluating: nothing here can fail, call anything, or take long.


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: bool(a == b),
    ast.NotEq: lambda a, b: bool(a != b),
    ast.Lt: lambda a, b: bool(a < b),
    ast.LtE: lambda a, b: bool(a <= b),
    ast.Gt: lambda a, b: bool(a > b),
    ast.GtE: lambda a, b: bool(a >= b),
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
}
_WITH_NONE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)


def _value(node: ast.expr, situation: Situation) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(each, situation) for each in values)
        case ast.BoolOp(values=values):
            return any(_value(each, situation) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, situation)
        case ast.UnaryOp(operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return [_value(each, situation) for each in elts]
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [left, *others]
            pairs = zip(ops, sides, sides[1:], strict=False)
            return all(_compare(op, first, second, situation) for op, first, second in pairs)
        case ast.Call(args=[argument]):
            value = _value(argument, situation)
            return len(value) if isinstance(value, str | Sequence | Mapping) else None
        case _:
            return _look_up(*_chain(node), situation)


def _compare(op: ast.cmpop, first: ast.expr, second: ast.expr, situation: Situation) -> bool:
    values = _value(first, situation), _value(second, situation)
    written = any(isinstance(side, ast.Constant) and side.value is None for side in (first, second))
    is_missing = any(value is None for value in values)
    if is_missing and not (written and isinstance(op, _WITH_NONE)):
        return False
    try:
        return _COMPARE[type(op)](*values)
    except TypeError:  # a text and a number, for example
        return False


def _look_up(root: str, keys: tuple[Key, ...], situation: Situation) -> Any:
    if root == "results":
        name = find_name(keys, situation.results)
        if name is None:
            return None
        value = situation.results[name]
        rest = keys[next(n for n in range(1, len(keys) + 1) if ".".join(map(str, keys[:n])) == name) :]
    else:
        value, rest = situation.variables, keys
    for key in rest:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, Sequence) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value
