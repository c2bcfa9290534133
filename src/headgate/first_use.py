"""What is made when it is first used: regular expressions, and the methods of dataclasses.

Headgate has several hundred of both, and a process needs few of them. If each class got its methods when it
is made, as `dataclasses` does it, all imports of a task would take 2,731 million instructions, not 1,888.
"""

import re
from collections.abc import Callable, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, AnyStr, ClassVar, cast, get_origin

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`, which takes longer for a class than its module takes to load."""
        return _prepare(cls) if cls else lambda cls: _prepare(cls, **options)


__all__ = ["dataclass", "regex"]


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """An expression with the methods of one that `re.compile` returns; a wrong one fails at its first use."""
    return cast(re.Pattern[AnyStr], LazyPattern(text, flags))


_TAKEN_OVER = (
    *("search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"),
    *("flags", "groups", "groupindex"),
)


class LazyPattern:
    """Stands for a compiled expression until it is asked for something, and then has all that one has."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def compile(self) -> None:
        compiled = re.compile(self.pattern, self._flags)
        for name in _TAKEN_OVER:
            setattr(self, name, getattr(compiled, name))

    def __getattr__(self, name: str) -> Any:
        """Reached for what is not there yet, so that only the first use takes longer."""
        if name not in _TAKEN_OVER:
            raise AttributeError(name)
        self.compile()
        return getattr(self, name)


_FIELDS = "__dataclass_fields__"
_WRITTEN = (
    *("__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__match_args__", "__replace__"),
    *("__dataclass_params__", "__init__", _FIELDS),
)
"""What a dataclass has, in the order in which it can be taken over while another thread makes an instance."""
_writing = RLock()


def _prepare(cls: type, slots: bool = False, **options: Any) -> type:
    """The class, or one like it with slots, which gets its methods at its first instance."""
    from dataclasses import MISSING, Field  # which `headgate --help` has no use for
    from inspect import get_annotations

    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    kinds = {name: kind for name, kind in get_annotations(cls).items() if not _is_of_class(kind)}

    def write() -> dict[str, Any]:
        with _writing:
            if vars(cls)[_FIELDS] is unwritten:
                made = vars(_make(cls, body, kinds, options))
                for name in _WRITTEN:
                    if name in made and made[name] is not body.get(name, cls):
                        setattr(cls, name, made[name])
        fields: dict[str, Any] = vars(cls)[_FIELDS]
        return fields

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        write()
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    unwritten = _Unwritten(write)
    if slots:
        taken = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
        rest = {name: value for name, value in body.items() if name not in kinds}
        rest["__slots__"] = tuple(name for name in kinds if name not in taken)
        if options.get("frozen"):
            rest |= {"__getstate__": _get_state, "__setstate__": _set_state}
        qualified = cls.__qualname__
        cls = type(cls)(cls.__name__, cls.__bases__, rest)
        cls.__qualname__ = qualified
    else:
        for name in body.keys() & kinds.keys():
            if isinstance(value := body[name], Field):
                delattr(cls, name)
                if value.default is not MISSING:
                    setattr(cls, name, value.default)
    for name, value in {"__init__": __init__, _FIELDS: unwritten}.items():
        setattr(cls, name, value)
    return cls


def _make(cls: type, body: dict[str, Any], kinds: dict[str, Any], options: dict[str, Any]) -> type:
    """A class with this body and what makes a dataclass of it, which inherits from none.

    The standard library finds the fields. It would compile each of the methods, in 0.26 ms for a class;
    with `__init__` as the only one that is compiled, it is 0.07 ms.
    """
    import dataclasses

    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= getattr(base, _FIELDS, {})
    body = inherited | body | {"__qualname__": cls.__qualname__}
    body["__annotations__"] = {name: field.type for name, field in inherited.items()} | kinds
    body["__doc__"] = "Given, since a dataclass without one looks for its signature, which takes long."
    frozen, compared = options.pop("frozen", False), options.pop("eq", True)
    plain = type(cls.__name__, (), body)
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(plain)
    fields = dataclasses.fields(made)
    made.__dataclass_params__.frozen = frozen  # type: ignore[attr-defined]
    new = {"__init__": _write_init(cls, fields, frozen), **_make_methods(fields, frozen, compared)}
    for name in new.keys() - body.keys():
        setattr(made, name, new[name])
    return made


def _write_init(cls: type, fields: Sequence[Any], frozen: bool) -> Any:
    """Sets the fields, in their order, and has `__post_init__` do the rest."""
    from dataclasses import MISSING

    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters: tuple[list[str], list[str]] = ([], [])
    lines = []
    for field in fields:
        name = value = field.name
        default = ""
        if field.default_factory is not MISSING:
            known[f"_make_{name}"], default = field.default_factory, "_missing"
            value = f"_make_{name}()" + (f" if {name} is _missing else {name}" if field.init else "")
        elif field.default is not MISSING:
            known[f"_default_{name}"], default = field.default, f"_default_{name}"
            value = name if field.init else default
        if field.init:
            parameters[field.kw_only].append(f"{name}={default}" if default else name)
        if field.init or default:
            lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    positional, named = parameters
    head = ", ".join(("self", *positional, *(("*", *named) if named else ())))
    exec("\n".join((f"def __init__({head}):", *lines, " return None")), known)
    known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return known["__init__"]


def _make_methods(fields: Sequence[Any], frozen: bool, compared: bool) -> dict[str, Any]:
    """The other methods."""
    from dataclasses import FrozenInstanceError
    from operator import attrgetter
    from reprlib import recursive_repr

    shown = [field.name for field in fields if field.repr]
    values = attrgetter("__class__", *(field.name for field in fields if field.compare))

    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    def refuse(self: Any, name: str, value: Any = None) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    made: dict[str, Any] = {"__repr__": __repr__}
    if compared:
        made |= {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}
    return made | ({"__setattr__": refuse, "__delattr__": refuse} if frozen else {})


class _Unwritten:
    """Stands for the fields of a class until somebody asks for them: a class that inherits them, say."""

    def __init__(self, write: Callable[[], dict[str, Any]]) -> None:
        self._write = write

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        return self._write()


def _is_of_class(kind: object) -> bool:
    if isinstance(kind, str):
        return kind.startswith("ClassVar")
    return kind is ClassVar or get_origin(kind) is ClassVar


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)
