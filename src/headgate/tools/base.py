"""What a tool is: a function, its arguments as a pydantic model, and a category.

    class ReadFile(Args):
        path: str = Field(description="Path of the file, relative to the repository")

    @tool("read")
    def read_file(ctx: ToolContext, args: ReadFile) -> Outcome:
        "Read a file."

A tool returns text, data, which the model reads as JSON, or an Outcome. A tool that writes returns an Outcome
with the changes it wants; the runtime records them and has the workspace apply them. Whatever else a tool
does, it does through a port of its context, which the run room implements for each call. A plain function
runs in a thread, a coroutine function in the event loop. Acts of ports are coroutines, because they are
recorded in the log: only a tool that is a coroutine function can act.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from headgate.core import Category, ToolSpec
from headgate.errors import HeadgateError, ToolArgsInvalid, ToolFailed
from headgate.first_use import dataclass, regex
from headgate.guard import InstalledPackages, Protected, SecretScan
from headgate.process import Sandbox
from headgate.tools.ports import (
    NO_STAGE,
    StagePort,
)
from headgate.tools.schemas import parameters_of
from headgate.tree import FileChange, Workspace


class Args(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool returned. `text` is what the model reads."""

    text: str
    read: tuple[str, ...] = ()
    """Canonical paths of the files whose content the model was given."""
    changes: tuple[FileChange, ...] = ()
    """What is to be written; the runtime does it."""
    restored: tuple[str, ...] = ()
    """What a command did where it may not, and was undone: a sentence each."""
    sources: tuple[str, ...] = ()
    """Pages of the web that the model was given, a line each."""
    told: str = ""
    """How a command failed, in a few words for people."""


@dataclass(frozen=True)
class ToolContext:
    """The ports that tools are given. The engine fills them; those of a stage are filled for each call."""

    workspace: Workspace
    save_output: Callable[[str], str]
    """Keeps a long text and returns the path under which `read_file` finds it."""
    redact: Callable[[str], str] = lambda text: text
    """Hides the values of the repository's secrets, in text that is about to be cut or saved."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What commands see of the environment: already filtered."""
    result_chars: int = 16_000
    """The cap on a result's length."""
    shell_timeout: float = 120.0
    """Seconds a command may take when the call names no time."""
    search_timeout: float = 20.0
    """Seconds a search may take."""
    ripgrep: str | None = None
    """The `rg` executable, where there is one."""
    on_output: Callable[[str], None] = lambda line: None
    """Hears each line that a running command prints, for people to watch."""
    protected: Protected | None = None
    """What no command may change."""
    installed: InstalledPackages | None = None
    """The packages in the repository, if tests are protected."""
    directory: Path | None = None
    """Where commands run; None is the repository's root."""
    sandbox: Sandbox | None = None
    """What commands run in."""
    secrets: SecretScan | None = None
    """Finds the files that tools, and commands in a sandbox, must not read."""
    made: Callable[[str], bool] = lambda path: False
    """Whether this task has created a file, by its canonical path."""
    stage: StagePort = NO_STAGE
    """The call under way, which tools act through; those of features see `headgate.run.call_under_way`."""


SYNONYMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("file_path", "filepath", "filename", "file", "target_file", "directory", "dir"), ("path",)
    ),
    **dict.fromkeys(("old_string", "old_str", "old_text", "find"), ("old",)),
    **dict.fromkeys(("new_string", "new_str", "new_text", "replacement", "replace"), ("new",)),
    **dict.fromkeys(("contents", "file_content", "file_text", "text"), ("content",)),
    **dict.fromkeys(("thought", "thinking"), ("text",)),
    **dict.fromkeys(("content", "body", "instructions"), ("text", "source")),
    **dict.fromkeys(("regex", "query"), ("pattern",)),
    **dict.fromkeys(("files", "file_paths"), ("paths",)),
    **dict.fromkeys(("diff", "input"), ("patch",)),
    "search": ("pattern", "old"),
    "pattern": ("glob",),
    "cmd": ("command",),
    **dict.fromkeys(("q", "question", "search_query"), ("query",)),
    "steps": ("tasks",),
    **dict.fromkeys(("goal", "objective"), ("goals",)),
    **dict.fromkeys(("type", "kind", "name"), ("task_type",)),
    **dict.fromkeys(("task", "task_id", "stage"), ("id",)),
    "output": ("result",),
    **dict.fromkeys(("offset", "line_start", "start", "from_line", "first_line", "line"), ("start_line",)),
    **dict.fromkeys(("line_end", "end", "to_line", "last_line"), ("end_line",)),
}
"""Names that models have learnt elsewhere for arguments of ours."""
_HUMP = regex(r"(?<=[a-z0-9])([A-Z])")


class Watch:
    """Looks at files around a call, in its thread if it has one: a hop to another costs as much as a read."""

    @property
    def looks_before(self) -> bool:
        """Whether it has something to look at before the function is called."""
        return False

    def look_before(self) -> None:
        """Called before the function."""

    def look_after(self, outcome: Outcome) -> None:
        """Called if something was read."""


NOBODY = Watch()

ToolFunction = Callable[[ToolContext, Any], Any]
"""Takes a context and its arguments. It returns text, data or an Outcome, or a coroutine that returns one."""
_DATA: TypeAdapter[Any] = TypeAdapter(Any)


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function that a model may call."""

    spec: ToolSpec
    args: type[Args]
    function: ToolFunction
    is_async: bool
    acts_itself: bool = False
    """What it changes is not in its Outcome, so that nobody can tell whether it did: never run twice."""

    about: tuple[str, ...] = ()
    """The arguments that say what a call is about, for people; empty: the first one that usually does."""
    from_variant: Callable[[str, Mapping[str, Any]], dict[str, Any]] | None = None
    """The arguments that are meant where a model called one of its variants as if that were the tool."""

    @property
    def name(self) -> str:
        return self.spec.name

    def parse(self, arguments: Mapping[str, Any]) -> Args:
        """The arguments, validated. ToolArgsInvalid says what is wrong and what the tool takes."""
        with self._failing():
            try:
                return self.args.model_validate(self._rename(arguments))
            except ValidationError as error:
                raise ToolArgsInvalid(
                    f"{self.name}: {describe_invalid(error)}. It takes {self.usage()}."
                ) from None

    async def run(self, context: ToolContext, args: Args, watch: Watch = NOBODY) -> Outcome:
        """Calls the function. Whatever goes wrong in it is raised as ToolFailed.

        What Headgate raises on purpose stays as it is: such an error names who reacts to it.
        """
        with self._failing():
            if not self.is_async:
                return await asyncio.to_thread(self._call, context, args, watch)
            if watch.looks_before:
                await asyncio.to_thread(watch.look_before)
            outcome = _as_outcome(await self.function(context, args))
        if outcome.read:
            await asyncio.to_thread(watch.look_after, outcome)
        return outcome

    def _call(self, context: ToolContext, args: Args, watch: Watch) -> Outcome:
        watch.look_before()
        try:
            outcome = _as_outcome(self.function(context, args))
        except StopIteration as error:
            # No future can hold this exception: whoever waits for the thread would wait forever.
            raise RuntimeError("StopIteration") from error
        if outcome.read:
            watch.look_after(outcome)
        return outcome

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Raises ToolFailed in the place of whatever the tool's own code raises unexpectedly."""
        try:
            yield
        except HeadgateError:
            raise
        except (Exception, SystemExit) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":.")
            raise ToolFailed(f"{self.name} failed with {said}.") from error

    def _rename(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under the tool's own names, where another name can only mean one of them."""
        known = self.args.model_fields
        renamed = dict(arguments)
        for name in arguments:
            plain = _HUMP.sub(r"_\1", name).lower()
            meant = next((field for field in (plain, *SYNONYMS.get(plain, ())) if field in known), None)
            if name not in known and meant and meant not in renamed:
                renamed[meant] = renamed.pop(name)
        return renamed

    def usage(self) -> str:
        """The arguments in one line: `path, start_line?, end_line?`."""
        return _usage(self.spec.parameters) or "no arguments"


def _as_outcome(result: Any) -> Outcome:
    """What a function returned, as an Outcome: data is shown as JSON."""
    if isinstance(result, Outcome):
        return result
    if isinstance(result, str):
        return Outcome(result)
    return Outcome(json.dumps(_DATA.dump_python(result, mode="json"), ensure_ascii=False))


def tool(
    category: Category, args: type[Args] | None = None, *, by_name: bool = False, about: tuple[str, ...] = ()
) -> Callable[[ToolFunction], Tool]:
    """Makes a Tool of a function: its name and docstring are what the model is shown.

    `by_name`: only stages have it that name it in `tools: {allow}`. `about`: see `Tool.about`.
    """

    def wrap(function: ToolFunction) -> Tool:
        model: type[Args] = args or get_type_hints(function)["args"]
        spec = ToolSpec(
            function.__name__,
            inspect.cleandoc(function.__doc__ or ""),
            partial(parameters_of, model),
            category,
            by_name,
        )
        return Tool(spec, model, function, inspect.iscoroutinefunction(function), about=about)

    return wrap


def describe_invalid(error: ValidationError) -> str:
    """What is wrong with a set of arguments, in one line."""
    problems = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        match item["type"]:
            case "missing":
                problems.append(f"`{where}` is missing")
            case "extra_forbidden":
                problems.append(f"there is no argument `{where}`")
            case _:
                problems.append(f"`{where}`: {item['msg'][:1].lower()}{item['msg'][1:]}")
    return "; ".join(problems[:5])


def _usage(schema: Mapping[str, Any]) -> str:
    """Names only, optional ones with a question mark, the fields of listed objects in brackets."""
    required = schema.get("required", ())
    parts = []
    for name, described in schema.get("properties", {}).items():
        inner = _usage(described.get("items", {}))
        parts.append(name + ("" if name in required else "?") + (f": [{{{inner}}}]" if inner else ""))
    return ", ".join(parts)


# Results that fit: nothing of unbounded length enters a model's context.


def cap(text: str, limit: int, save: Callable[[str], str]) -> str:
    """The text if it fits; otherwise its head and tail, and between them a line that says what was cut.

    `save` keeps the whole text and returns the name under which read_file finds it. The result is never
    longer than `limit`.
    """
    if len(text) <= limit:
        return text
    name = save(text)
    room = limit - len(_note(len(text), text.count("\n"), name, text.count("\n") + 1)) - 2
    if room <= 0:
        return _note(len(text), text.count("\n"), name, 1)[: max(0, limit)]
    head = text[: room // 2]
    tail = text[len(text) - (room - len(head)) :]
    # Cutting inside a line is for texts of few, very long lines only.
    border = head.rfind("\n") + 1
    if border > len(head) // 2:
        head = head[:border]
    border = tail.find("\n") + 1
    if 0 < border < len(tail) // 2:
        tail = tail[border:]
    cut = text[len(head) : len(text) - len(tail)]
    before = "" if head.endswith("\n") or not head else "\n"
    note = _note(len(cut), cut.count("\n"), name, head.count("\n") + 1)
    return f"{head}{before}{note}\n{tail}"


def _note(characters: int, lines: int, name: str, start: int) -> str:
    return (
        f"[... {characters:,} characters ({lines:,} lines) cut; full output: {name};"
        f" to continue, call read_file with start_line={start} ...]"
    )
