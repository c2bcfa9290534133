"""Places in a document: paths of keys and indexes, and which keys a model knows at one."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from headgate.core.flow import Stage
from headgate.core.stagenames import FLAT_NAMES

Place = tuple[str | int, ...]
_FLAT: dict[tuple[str | int, str | int], str] = {inner: name for name, inner in FLAT_NAMES.items()}


def settle(loc: Sequence[str | int], data: Any) -> Place:
    """A validation error's location as a place in the data: parts that only name a type are left out.

    A stage's flat names are found, too: what is wrong in `tools: {allow}` is then wrong in `tools_allow`.
    """
    place: list[str | int] = []
    knob: str | int = ""
    around: Any = None
    for part in loc:
        flat = _FLAT.get((knob, part), "")
        knob = part
        if isinstance(data, dict) and part in data:
            around, data = data, data[str(part)]
        elif isinstance(data, dict) and flat and flat in data:
            part, data = flat, data[flat]
        elif (
            isinstance(around, dict) and flat and flat in around
        ):  # the knob is there as well, for other fields
            del place[-1]
            part, data = flat, around[flat]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        place.append(part)
    return tuple(place)


def known_keys(model: type[BaseModel], place: Place) -> list[str]:
    """The keys that the model has at a place."""
    found: list[Any] = [model]
    for part in place:
        found = [inner for annotation in found for inner in _step(annotation, part)]
    names: dict[str, None] = {}
    for annotation in found:
        for option in _options(annotation):
            if isinstance(option, type) and issubclass(option, BaseModel):
                names |= dict.fromkeys(option.model_fields)
                names |= dict.fromkeys(FLAT_NAMES if issubclass(option, Stage) else ())
    return list(names)


def _step(annotation: Any, part: str | int) -> Iterator[Any]:
    for option in _options(annotation):
        origin, inner = get_origin(option), get_args(option)
        if isinstance(option, type) and issubclass(option, BaseModel):
            if part in option.model_fields:
                yield option.model_fields[str(part)].annotation
        elif origin is dict and isinstance(part, str):
            yield inner[1]
        elif origin in (list, tuple) and isinstance(part, int):
            yield inner[0]


def _options(annotation: Any) -> Iterator[Any]:
    """The arms of a union, `Annotated` taken off; anything else is itself."""
    if isinstance(annotation, type) or get_origin(annotation) in (list, tuple, dict):
        yield annotation
        return
    metadata = getattr(annotation, "__metadata__", None)
    for inner in get_args(annotation)[: 1 if metadata else None]:
        yield from _options(inner)
