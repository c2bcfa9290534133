"""The parameters of a function as the arguments of a tool: their types, defaults and descriptions."""

import copy
import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError

from headgate.errors import ConfigError
from headgate.tools import Args, parameters_of


def make_arguments(name: str, fields: dict[str, Any]) -> tuple[type[Args], dict[str, Any]]:
    """The type of the arguments, and its schema. ConfigError if one has a type that JSON cannot have."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            args = create_model(f"{name}_arguments", __base__=Args, **fields)
            return args, parameters_of(args)
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, ValueError) as error:
        said = " ".join(str(error).split()).partition(". Set `arbitrary")[0].rstrip(".")
        raise ConfigError(f"The tool {name} has a parameter whose type JSON cannot hold: {said}.") from None


def read_parameters(
    function: Callable[..., Any], plain: Any, tool: str, about: dict[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters as fields of a model, and the name of each field. ConfigError if one cannot be."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ConfigError(
            f"The parameters of the tool {tool} are not known: give a Python function."
        ) from None
    hints = _hints(plain, tool)
    fields: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for position, parameter in enumerate(parameters):
        name = parameter.name
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(
                f"The tool {tool} has the parameter {parameter}, which cannot be given by name."
            )
        if name not in hints:
            raise ConfigError(f"The tool {tool} needs a type for its parameter {name}.")
        # Names that a model of pydantic has itself, or does not allow, are only used outside of it.
        is_taken = name.startswith(("_", "model_")) or hasattr(BaseModel, name)
        keys[name] = f"parameter_{position}" if is_taken else name
        field = _field(hints[name], parameter.default, about.get(name))
        if is_taken:
            field = FieldInfo.merge_field_infos(field, Field(alias=name))
        fields[keys[name]] = (hints[name], field)
    return fields, keys


def _hints(plain: Any, tool: str) -> dict[str, Any]:
    try:
        return get_type_hints(plain.__init__ if inspect.isclass(plain) else plain, include_extras=True)
    except TypeError as error:
        raise ConfigError(f"The tool {tool} has no types for its parameters: {error}.") from None
    except NameError as error:
        raise ConfigError(
            f"The tool {tool} has a parameter of a type that is not known: {error}. "
            "Define the type at the top of the module."
        ) from None


def _field(hint: Any, default: Any, described: str | None) -> Any:
    """One parameter: with its default, and with what is said about it in its type or in the docstring."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    own = next((note.description for note in notes if isinstance(note, FieldInfo) and note.description), None)
    words = own or next((note for note in notes if isinstance(note, str)), None) or described
    more: dict[str, Any] = {"description": words} if words else {}
    if isinstance(default, FieldInfo):
        return default if default.description or not words else FieldInfo.merge_field_infos(default, **more)
    if default is inspect.Parameter.empty:
        return Field(**more)
    return Field(default_factory=functools.partial(_fresh, default), **more)


def _fresh(default: Any) -> Any:
    """A default of its own for each call, where it could be changed."""
    return copy.deepcopy(default) if isinstance(default, list | dict | set | bytearray) else default
