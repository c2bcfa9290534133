"""JSON Schemas as models are shown them: without references, and as small as they need them."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel

Schema = Mapping[str, Any]
_NOISE = ("title", "description", "default", "examples", "discriminator", "$defs", "definitions", "$schema")
_NULL = {"type": "null"}
_NESTINGS = (3, 2, 1)
"""How often a type may be met within itself, where that does not become too long: trees of a few levels."""
_MOST_PARTS = 400


@lru_cache(maxsize=256)
def parameters_of(args: type[BaseModel]) -> dict[str, Any]:
    """A JSON schema as small as models need it: every word of it is read before each reply."""
    return {"properties": {}, **slim_schema(args.model_json_schema())}


def slim_schema(schema: Schema) -> dict[str, Any]:
    """A JSON Schema without references and noise. One that refers to itself ends after a few levels.

    What is left out of it may still be valid: the schema itself decides that.
    """
    found: dict[str, Any] | None = None
    for nesting in _NESTINGS:
        slimmer = _Slimmer(schema, nesting)
        found = slimmer.slim(schema, ())
        if slimmer.parts <= _MOST_PARTS:
            break
    return found or {}


class _Slimmer:
    """Makes one schema slim. `None` stands for what would repeat too often."""

    def __init__(self, root: Schema, nesting: int) -> None:
        self.parts = 0
        self._root = root
        self._nesting = nesting

    def slim(self, schema: Any, within: tuple[str, ...], needed: bool = True) -> dict[str, Any] | None:
        """Without references, titles, defaults and the docstrings of nested classes.

        `within`: the references that lead here. What is not `needed` is left out rather than null.
        """
        if not isinstance(schema, Mapping):
            return {}
        self.parts += 1
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if within.count(reference) >= self._nesting or self.parts > _MOST_PARTS:
                return None
            return self.slim(_follow(reference, self._root), (*within, reference), needed)
        slim = {key: value for key, value in schema.items() if key not in _NOISE}
        if isinstance(slim.get("additionalProperties"), bool):
            del slim["additionalProperties"]
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(slim.get(word), list | tuple):
                given = [option for option in slim.pop(word) if needed or option != _NULL]
                options = [found for option in given if (found := self.slim(option, within)) is not None]
                if given and not options:
                    return None
                slim |= options[0] if len(options) == 1 else {word: options}
        return self._slim_values(slim, within)

    def _slim_values(self, slim: dict[str, Any], within: tuple[str, ...]) -> dict[str, Any] | None:
        """The same for the values in a list or an object."""
        if isinstance(slim.get("items"), Mapping):
            slim["items"] = self.slim(slim["items"], within)
            if slim["items"] is None:
                if slim.get("minItems"):
                    return None
                del slim["items"]
                slim["maxItems"] = 0
        if isinstance(slim.get("prefixItems"), list | tuple):
            slim["prefixItems"] = [self.slim(place, within) for place in slim["prefixItems"]]
            if None in slim["prefixItems"]:
                return None
        if isinstance(slim.get("additionalProperties"), Mapping):
            slim["additionalProperties"] = self.slim(slim["additionalProperties"], within)
            if slim["additionalProperties"] is None:
                del slim["additionalProperties"]
        properties, required = slim.get("properties"), slim.get("required")
        if isinstance(properties, Mapping):
            needed = {name for name in required or () if name in properties}
            slim["properties"] = dict(self._slim_fields(properties, needed, within))
            if not needed <= set(slim["properties"]):
                return None
        return slim

    def _slim_fields(
        self, properties: Schema, needed: set[str], within: tuple[str, ...]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, value in properties.items():
            found = self.slim(value, within, name in needed)
            if found is not None:
                described = isinstance(value, Mapping) and "description" in value
                yield name, {**found, **({"description": value["description"]} if described else {})}


def _follow(reference: str, root: Schema) -> Any:
    """What a reference within a schema leads to; nothing where it leads out of it or nowhere."""
    found: Any = root
    pointer = reference.removeprefix("#").strip("/") if reference.startswith("#") else "elsewhere"
    for part in pointer.split("/") if pointer else ():
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
