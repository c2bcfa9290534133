"""What a program names in a flow: functions, types and stages, and what is said of those that are wrong."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from headgate.config import Document
from headgate.errors import ConfigError
from headgate.first_use import dataclass

Place = tuple[str | int, ...]


def import_reference(reference: str, where: str = "") -> Any:
    """What an import path such as `package.module:name` leads to. ConfigError if it leads nowhere."""
    module, _, name = reference.partition(":")
    place = f"{where}: " if where else ""
    if not name:
        raise ConfigError(f"{place}{reference} is not an import path: write package.module:name.")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ConfigError(f"{place}{reference} cannot be imported: {error}.") from None
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{place}{reference} cannot be imported: {said}.") from error
    return found


def check_function(given: Any, what: str) -> None:
    """ConfigError if it cannot be called."""
    if not callable(given):
        raise ConfigError(f"{what} must be a function, not {given!r}.")


def schema_of(given: Any, what: str) -> dict[str, Any]:
    """The JSON Schema of a type. ConfigError if it is none."""
    try:
        return TypeAdapter(given).json_schema()
    except (PydanticUserError, SchemaError, SyntaxError, NameError, TypeError) as error:
        said = str(error).splitlines()[0].split(". Set `")[0].rstrip(".")
        raise ConfigError(f"{what} is neither a type nor a JSON Schema: {said}.") from None


@dataclass(frozen=True)
class InProgram(Document):
    """A flow that a program builds: a place in it is named by its stage."""

    def error(self, place: Place, message: str) -> ConfigError:
        """See Document."""
        name, prefix = self.name, ""
        around: Mapping[str, Any] = self.data
        while len(place) > 1 and place[0] == "stages" and isinstance(place[1], int):
            around = around["stages"][place[1]]
            prefix += f"stages[{place[1]}]."
            name, place = f'{self.name}, stage "{around.get("id", "")}"', place[2:]
        inside = ".".join(part for part in place[:-1] if isinstance(part, str))
        if inside and message.startswith("unknown "):
            name += f", {inside}"
        message = message.removeprefix(f'"{prefix.rstrip(".")}" ')
        said = message.replace(f'"{prefix}', '"', 1).replace('a mapping of "key: value" lines', "a dict")
        return Document(name, {}).error((), said)
