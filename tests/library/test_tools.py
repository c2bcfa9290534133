"""Functions of a program as tools: what the model sees, what they are given, and what comes back."""

import asyncio
import functools
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate import Flow, Stage, run_flow_sync, tool
from headgate.core import ToolSpec
from headgate.errors import ConfigError, StoreError
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry
from library import postponed_annotations


def use(function: Any, name: str, arguments: dict[str, Any]) -> tuple[ToolSpec, str]:
    """A tool as the model sees it, and the answer to a call of it."""
    calls: list[dict[str, Any]] = [{name: arguments}, {"stage_done": {"stage": "one", "summary": "Done."}}]
    model = ScriptedModel([ScriptEntry.model_validate({"calls": [call]}) for call in calls])
    result = run_flow_sync(Flow(name="f", stages=[Stage(id="one", tools=[function])]), model=model)
    model.check_finished()
    assert result.status == "completed"
    (spec,) = [spec for spec in model.requests[0].tools if spec.name == name]
    return spec, model.requests[1].messages[-1].content


def answer_of(function: Any, name: str = "work", /, **arguments: Any) -> str:
    return use(function, name, arguments)[1]


class Greeter:
    """Greets people."""

    def __init__(self, word: str) -> None:
        self.word = word

    def greet(self, name: str) -> str:
        return f"{self.word} {name}"

    @tool(category="read", description="Greets again.")
    def greet_again(self, name: str) -> str:
        return f"{self.word} again {name}"

    @tool(category="read")
    @staticmethod
    def shout(name: str) -> str:
        return name.upper()

    @tool(category="read")
    @classmethod
    def whisper(cls, name: str) -> str:
        return f"{cls.__name__} {name.lower()}"

    def __call__(self, name: str) -> str:
        return f"{self.word}, {name}"


class AsyncGreeter:
    async def __call__(self, name: str) -> str:
        return f"soon {name}"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def add_later(a: int, b: int) -> int:
    return a + b


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def outer(**values: Any) -> Any:
        return 2 * function(**values)

    return outer


@pytest.mark.parametrize(
    ("function", "name", "arguments", "answer"),
    [
        (Greeter("Hi").greet, "greet", {"name": "Ann"}, "Hi Ann"),
        (Greeter("Hi").greet_again, "greet_again", {"name": "Ann"}, "Hi again Ann"),
        (Greeter.shout, "shout", {"name": "Ann"}, "ANN"),
        (Greeter.whisper, "whisper", {"name": "Ann"}, "Greeter ann"),
        (tool(Greeter("Hi").greet), "greet", {"name": "Ann"}, "Hi Ann"),
        (Greeter("Hi"), "Greeter", {"name": "Ann"}, "Hi, Ann"),
        (AsyncGreeter(), "AsyncGreeter", {"name": "Ann"}, "soon Ann"),
        (functools.partial(add, 1), "add", {"b": 2}, "3"),
        (functools.partial(add, b=1), "add", {"a": 2}, "3"),
        (tool(name="add_one")(functools.partial(add_later, 1)), "add_one", {"b": 2}, "3"),
        (tool(name="three")(lambda: 3), "three", {}, "3"),
        (doubled(tool(add)), "add", {"a": 1, "b": 2}, "6"),
        (postponed_annotations.visit, "visit", {"place": {"name": "Rome"}}, "visited Rome"),
    ],
)
def test_whatever_can_be_called_is_a_tool(
    function: Any, name: str, arguments: dict[str, Any], answer: str
) -> None:
    assert answer_of(function, name, **arguments) == answer


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: lambda: 3, 'stage "one": A tool cannot be called "<lambda>"'),
        (lambda: tool(name="a.b")(add), 'cannot be called "a.b"'),
        (lambda: tool(name="a" * 65)(add), "at most 64 characters"),
        (lambda: tool(category="other")(add), 'cannot have the category "other": use read, write'),  # type: ignore[call-overload]
        (lambda: tool(timeout=0)(add), "a number of seconds above 0, not 0"),
        (lambda: "add", "'add' is not a tool: give a function"),
        (lambda: Greeter.greet_again, "Greeter.greet_again is a method: give it from an object"),
        (lambda: print, "the parameter *args, which cannot be given by name"),
        (lambda: dict, "The parameters of the tool dict are not known"),
        (lambda: tool(name="same")(lambda x: x), "needs a type for its parameter x"),
        (postponed_annotations.make_unknown, "a type that is not known: name 'Fruit' is not defined"),
    ],
)
def test_what_is_no_tool_is_told_in_a_sentence(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        Flow(name="f", stages=[Stage(id="one", tools=[make()])])
    assert said in str(error.value)


def test_a_parameter_that_json_cannot_have() -> None:
    def read(file: io.StringIO) -> str:
        return file.read()

    def half(number: Annotated[int, Field(ge=0.5)]) -> int:
        return number

    for function in (read, half):
        said = f"The tool {function.__name__} has a parameter whose type JSON cannot hold: [^\n]*$"
        with pytest.raises(ConfigError, match=said):
            Flow(name="f", stages=[Stage(id="one", tools=[function])])


# Names.


def stage_done(text: str) -> str:
    return text


def first() -> int:
    return 1


def test_two_tools_of_one_name_are_both_named() -> None:
    second = tool(name="first")(functools.partial(add, 1))
    with pytest.raises(ConfigError) as error:
        Flow(name="f", stages=[Stage(id="one", tools=[first, second])])
    one, other = (function.__code__.co_firstlineno for function in (first, add))
    assert str(error.value) == (
        f'stage "one": two tools are called first: library.test_tools.first (line {one}) '
        f"and library.test_tools.add (line {other}). Rename one."
    )


@pytest.mark.parametrize("name", ["stage_done", "flow_stage_done", "agent__task_status", "plan_tasks"])
@pytest.mark.parametrize("level", ["stage", "flow"])
def test_the_names_of_the_runtime_are_taken(name: str, level: str) -> None:
    given = tool(name=name)(functools.partial(stage_done))
    with pytest.raises(
        ConfigError, match=rf"stage_done \(line \d+\) cannot be called {name}: that is a tool"
    ):
        Flow(
            name="f",
            tools=[given] if level == "flow" else [],
            stages=[Stage(id="one", tools=[given] if level == "stage" else [])],
        )


# Parameters.


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    deep: bool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def draw(
    point: Point,
    options: Options,
    colour: Colour,
    mode: Literal["fast", "slow"],
    tree: Tree,
    width: int | None,
    words: dict[str, int] | None = None,
    pair: tuple[int, str] = (1, "a"),
    *,
    seen: list[int] = [],  # noqa: B006 - what is changed here must not be there in the next call
    day: date | None = None,
) -> str:
    seen.append(1)
    return f"{point} {options} {colour} {mode} {tree.children[0].name} {width} {words} {pair} {seen} {day}"


def test_parameters_are_of_their_types() -> None:
    arguments = {
        "point": {"x": 3},
        "options": {"deep": True},
        "colour": "blue",
        "mode": "fast",
        "tree": {"name": "a", "children": [{"name": "b"}]},
        "width": None,
    }
    for _ in range(2):
        spec, answer = use(draw, "draw", arguments)
        assert answer == ("Point(x=3, y=0) {'deep': True} Colour.BLUE fast b None None (1, 'a') [1] None")
    shown = spec.parameters["properties"]
    assert shown["colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert shown["mode"] == {"enum": ["fast", "slow"], "type": "string"}
    assert shown["width"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert shown["words"] == {"additionalProperties": {"type": "integer"}, "type": "object"}
    assert shown["day"] == {"format": "date", "type": "string"}
    assert shown["point"]["required"] == ["x"]
    assert [place["type"] for place in shown["pair"]["prefixItems"]] == ["integer", "string"]
    assert spec.parameters["required"] == ["point", "options", "colour", "mode", "tree", "width"]
    assert "$ref" not in str(spec.parameters)


def odd_names(_hidden: int, schema: str, model_config: int = 1, copy: bool = False, self: int = 2) -> str:
    return f"{_hidden} {schema} {model_config} {copy} {self}"


def test_parameters_may_have_names_that_pydantic_uses() -> None:
    spec, answer = use(odd_names, "odd_names", {"_hidden": 5, "schema": "s", "copy": True})
    assert answer == "5 s 1 True 2"
    assert list(spec.parameters["properties"]) == ["_hidden", "schema", "model_config", "copy", "self"]


def described(
    a: Annotated[int, Field(ge=1, description="From the field")],
    b: Annotated[str, "From the type"] = "b",
    c: int = Field(3, description="From the default", le=5),
    d: float = 1.5,
    e: Any = object(),  # noqa: B008 - a default that is no JSON
) -> str:
    """Does it.

    Args:
        a: Not this.
        d (float): From the docstring,
            on two lines: yes.
    """
    return f"{a} {b} {c} {d}"


def test_descriptions_are_found_wherever_they_are() -> None:
    spec, answer = use(described, "described", {"a": 1})
    assert answer == "1 b 3 1.5"
    assert spec.description == "Does it."
    assert {name: field.get("description") for name, field in spec.parameters["properties"].items()} == {
        "a": "From the field",
        "b": "From the type",
        "c": "From the default",
        "d": "From the docstring, on two lines: yes.",
        "e": None,
    }
    assert answer_of(described, "described", a=0) == (
        "described: `a`: input should be greater than or equal to 1. It takes a, b?, c?, d?, e?."
    )


GOOGLE = """Search for papers.

In all journals.

Args:
    query (str): What to look for.
    most: How many:
        ten at most.

Returns:
    query: The papers.
"""
NUMPY = """Search for papers.

In all journals.

Parameters
----------
query : str
    What to look for.
most : int, optional
    How many:
    ten at most.

Returns
-------
query
    The papers.
"""
SPHINX = """Search for papers.

In all journals.

:param query: What to look for.
:param int most: How many:
    ten at most.
:type query: str
:returns: The papers.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings_of_all_styles(text: str) -> None:
    def search_papers(query: str, most: int = 3) -> str:
        return query

    search_papers.__doc__ = text
    spec, _ = use(search_papers, "search_papers", {"query": "a"})
    assert spec.description == "Search for papers.\n\nIn all journals."
    shown = spec.parameters["properties"]
    assert shown["query"]["description"] == "What to look for."
    assert shown["most"]["description"] == "How many: ten at most."


# Results.


def endless() -> Iterator[int]:
    yield from count()


async def endless_later() -> AsyncIterator[int]:
    for number in count():
        yield number


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: "two\nlines", "two\nlines"),
        (lambda: None, "null"),
        (lambda: Tree(name="a"), '{"name": "a", "children": []}'),
        (lambda: Point(1), '{"x": 1, "y": 0}'),
        (lambda: {"é": [1.5, True, Colour.RED]}, '{"é": [1.5, true, "red"]}'),
        (lambda: b"abc", '"abc"'),
        (lambda: {1}, "[1]"),
        (lambda: (number for number in range(3)), "[0, 1, 2]"),
        (lambda: add_later(1, 2), "3"),
        (lambda: "\ud800", "\ufffd"),
        (lambda: b"\xff", "work failed with UnicodeDecodeError: "),
        (circle, "work failed with ValueError: Circular reference"),
        (object, "work failed with PydanticSerializationError: Unable to serialize unknown type"),
    ],
)
def test_results_are_text_or_json(make: Callable[[], Any], answer: str) -> None:
    def work() -> Any:
        return make()

    assert answer_of(work).startswith(answer)


@pytest.mark.parametrize(
    "make", [endless, endless_later, lambda: "x" * 10**6, lambda: list(range(10**5))], ids=range(4)
)
def test_results_have_an_end(make: Callable[[], Any]) -> None:
    said = answer_of(tool(name="work")(make))
    assert len(said) <= 16_000
    assert "cut" in said


# Failures.


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class OwnBase(BaseException):
    pass


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no\nluck."), "ValueError: no luck"),
        (ValueError("x" * 10**6), "ValueError: " + "x" * 2000),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (OwnBase("b"), "OwnBase: b"),
        (TimeoutError("own"), "TimeoutError: own"),
        (MemoryError(), "MemoryError"),
        (Unspeakable(), "Unspeakable"),
        (ExceptionGroup("both", [ValueError("a")]), "ExceptionGroup: both (1 sub-exception)"),
        (ConfigError("Wrong."), "ConfigError: Wrong"),
        (StoreError("Full."), "StoreError: Full"),
    ],
)
def test_whatever_a_function_raises_is_an_answer(error: BaseException, said: str, is_async: bool) -> None:
    def work() -> str:
        raise error

    async def work_later() -> str:
        raise error

    function = tool(name="work", timeout=60)(work_later if is_async else work)
    assert answer_of(function) == f"work failed with {said}."


def test_an_interrupt_in_a_thread_is_an_answer_and_in_the_loop_ends_the_program() -> None:
    def work() -> None:
        raise KeyboardInterrupt

    async def work_later() -> None:
        raise KeyboardInterrupt

    assert answer_of(work) == "work failed with KeyboardInterrupt."
    with pytest.raises(KeyboardInterrupt):
        answer_of(work_later, "work_later")


def test_nobody_waits_for_a_function_that_does_not_end() -> None:
    """More of them than a pool of threads has room for. The test would not end if the program waited."""
    go_on = threading.Event()
    stuck: list[threading.Thread] = []

    @tool(timeout=0.01)
    def work(number: int) -> None:
        stuck.append(threading.current_thread())
        go_on.wait()

    calls: list[dict[str, Any]] = [{"work": {"number": number}} for number in range(40)]
    script = [{"calls": calls}, {"calls": [{"stage_done": {"stage": "one", "summary": "Done."}}]}]
    model = ScriptedModel([ScriptEntry.model_validate(entry) for entry in script])
    run_flow_sync(Flow(name="f", stages=[Stage(id="one", tools=[work])]), model=model)
    answers = [message.content for message in model.requests[1].messages if message.role == "tool"]
    assert answers == ["work did not end within 0.01 s."] * 40
    assert all(thread.daemon for thread in stuck)
    go_on.set()
    for thread in stuck:
        thread.join()
