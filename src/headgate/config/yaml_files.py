"""Reading YAML that people wrote and nobody vouches for: values, the line of each, and errors that name both.

Only `true` and `false` are booleans (`off`, `on`, `yes` and `no` are words), keys are text and unique, and
aliases cannot make a small file large. JSON is read too, being YAML, tabs included.
"""

import json
import re
import stat
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from headgate.core import ERROR_NAMES, FLAT_NAMES, Flow, Stage, nearest, unknown_name
from headgate.errors import ConfigError
from headgate.first_use import dataclass, regex

# Places in a document: paths of keys and indexes, and which keys a model knows at one.


Place = tuple[str | int, ...]
_FLAT: dict[tuple[str | int, str | int], list[str]] = {
    inner: [name for name, other in FLAT_NAMES.items() if other == inner] for inner in FLAT_NAMES.values()
}


def settle(loc: Sequence[str | int], data: Any) -> Place:
    """A validation error's location as a place in the data: parts that only name a type are left out.

    A stage's flat names are found, too: what is wrong in `tools: {allow}` is then wrong in `tools_allow`.
    """
    place: list[str | int] = []
    knob: str | int = ""
    around: Any = None
    for part in loc:
        said = [level for level in (data, around) if isinstance(level, dict)]
        flats = _FLAT.get((knob, part), ())
        flat = next((name for name in flats if any(name in level for level in said)), "")
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
                names |= dict.fromkeys((*FLAT_NAMES, *ERROR_NAMES) if issubclass(option, Stage) else ())
                names |= dict.fromkeys(ERROR_NAMES if issubclass(option, Flow) else ())
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


MAX_BYTES = 256 * 1024
MAX_VALUES = 20_000
MAX_DEPTH = 40
_TAG = "tag:yaml.org,2002:"
_TAB = "found character '\\t' that cannot start any token"


@dataclass(frozen=True)
class Document:
    """A file's content and where in the file each value is."""

    name: str
    """The file as people know it, for messages."""
    data: dict[str, Any]
    lines: Mapping[Place, int] = field(default_factory=dict)
    digest: str = ""
    """The SHA-256 of the file's bytes, if it was read from one."""

    def line_of(self, place: Place) -> int | None:
        """The line of a value, or of the nearest thing around it that has one."""
        place = place if place in self.lines else settle(place, self.data)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)

    def error(self, place: Place, message: str) -> ConfigError:
        """`agent.yaml, line 3: message.`"""
        line = self.line_of(place)
        message += "" if message.endswith((".", "?", "!")) else "."
        return ConfigError(f"{self.name}, line {line}: {message}" if line else f"{self.name}: {message}")


def read_yaml(path: Path, name: str | None = None) -> Document:
    """The mapping in a file; an empty file is an empty mapping. ConfigError says what is wrong, and where."""
    name = name or str(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{name} is a directory, but a file was expected.")
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{name} is not a regular file.")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{name} does not exist.") from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror or error}.") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{name} is larger than {MAX_BYTES // 1024} KB.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: this is not UTF-8 text.") from None
    return replace(parse_yaml(text, name), digest=sha256(raw).hexdigest())


def parse_yaml(text: str, name: str) -> Document:
    """The mapping in a text; `name` is what messages call it."""
    try:
        root = _compose(text, name)
    except ConfigError:
        if "\t" not in text or not _is_json(text):
            raise
        root = _compose(text.replace("\t", " "), name)
    if root is None:
        return Document(name, {})
    reading = _Reading(name)
    data = reading.value(root, (), 0)
    if data is None:
        return Document(name, {})
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise ConfigError(f'{name}, line {_line(root)}: expected "key: value" lines, found {kind}.')
    return Document(name, data, reading.lines)


def explain(
    error: ValidationError, document: Document, model: type[BaseModel], inside: Place = ()
) -> ConfigError:
    """The first problem, in the order of the file, as one sentence with its line.

    `inside`: where in the document the model's data is.
    """
    errors = error.errors(include_url=False)
    found = [(settle((*inside, *item["loc"]), document.data), item) for item in errors]
    # A list with a bad item is also reported as too short; only the item is worth a word.
    inmost = [pair for pair in found if not any(_is_inside(other, pair[0]) for other, _ in found)]
    place, item = min(inmost, key=lambda pair: document.line_of(pair[0]) or 0)
    match item["type"]:
        case "extra_forbidden":
            key = str(item["loc"][-1])
            around = place[:-1] if place[-1:] == (key,) else place
            message = unknown_name("key", key, known_keys(model, around[len(inside) :]))
            if not around and key in known_keys(model, ("models", "any")):
                message = (
                    f'"{key}" is a setting of one model: write it into an entry of "models", '
                    'and name that entry as "model"'
                )
        case "missing":
            message = f'"{item["loc"][-1]}" is missing'
        case kind:
            message = f"{_show(place)} {_expectation(kind, item)}" if place else _expectation(kind, item)
    return document.error(place, message)


class _Loader(yaml.SafeLoader):
    """Composes nodes; plain scalars are typed by the rules of YAML 1.2."""


_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]{1,18}$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(_TAG + _kind, regex(_pattern), list(_first))


@lru_cache(maxsize=64)  # the files of flows are read for every task; nodes are never changed
def _nodes(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        return _nodes(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        if error.problem == _TAB:
            raise ConfigError(f"{where}: YAML allows no tab here: use spaces.") from None
        raise ConfigError(f"{where}: this is not valid YAML: {_plain(error.problem)}.") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}, line {line}: there is a character that YAML does not allow.") from None
    except RecursionError:
        raise ConfigError(f"{name}: values are nested too deeply.") from None


@dataclass
class _Reading:
    """Turns nodes into values, noting lines and counting, since an alias repeats what it stands for."""

    name: str
    lines: dict[Place, int] = field(default_factory=dict)
    values: int = 0

    def value(self, node: yaml.Node, place: Place, depth: int) -> Any:
        self.values += 1
        if self.values > MAX_VALUES or depth > MAX_DEPTH:
            what = "contains too many values" if self.values > MAX_VALUES else "is nested too deeply"
            raise ConfigError(f"{self.name}, line {_line(node)}: this {what}.")
        self.lines.setdefault(place, _line(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*place, index), depth + 1) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, place: Place, depth: int) -> dict[str, Any]:
        if node.tag != _TAG + "map":
            raise self._tag_error(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise ConfigError(f"{self.name}, line {_line(key_node)}: a key must be text.")
            if key in found:
                raise ConfigError(f'{self.name}, line {_line(key_node)}: the key "{key}" appears twice.')
            self.lines[(*place, key)] = _line(key_node)
            found[key] = self.value(value_node, (*place, key), depth + 1)
        return found

    def _scalar(self, node: yaml.Node) -> Hashable:
        text = node.value if isinstance(node.value, str) else ""
        match node.tag.removeprefix(_TAG):
            case "str" if "\0" in text:  # written as an escape: no path, command or message can hold it
                raise ConfigError(f"{self.name}, line {_line(node)}: there is a NUL character in this text.")
            case "str":
                return _join_surrogates(text)
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int" | "float" as kind:
                try:
                    return int(text) if kind == "int" else float(text)
                except ValueError:
                    raise ConfigError(f"{self.name}, line {_line(node)}: this should be a number.") from None
        raise self._tag_error(node)

    def _tag_error(self, node: yaml.Node) -> ConfigError:
        tag = node.tag.replace(_TAG, "!!")
        return ConfigError(f"{self.name}, line {_line(node)}: the tag {tag} has no meaning here.")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _join_surrogates(text: str) -> str:
    """JSON writes characters beyond 16 bits as two escapes, which belong together."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _plain(problem: str | None) -> str:
    return (problem or "it cannot be read").replace("'", '"').rstrip(".")


def _is_inside(inner: Place, outer: Place) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _show(place: Place) -> str:
    """`models.cheap.timeouts`, `stages[2].id`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return f'"{text.lstrip(".")}"'


_EXPECTATIONS = {
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": 'must be a mapping of "key: value" lines',
    "model_type": 'must be a mapping of "key: value" lines',
}


def _expectation(kind: str, item: Mapping[str, Any]) -> str:
    if kind in _EXPECTATIONS:
        return _EXPECTATIONS[kind]
    if kind == "literal_error":
        given = item.get("input")
        options = re.findall(r"'([^']*)'", str(item["ctx"]["expected"]))
        close = nearest(given, options) if isinstance(given, str) else None
        return f"must be {item['ctx']['expected']}" + (f': did you mean "{close}"?' if close else "")
    message = str(item["msg"]).removeprefix("Value error, ")
    return message.replace("Input should", "must").replace("String should", "must")
