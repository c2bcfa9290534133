"""A task: what a person asked for, what must not happen on the way, and how its text says so.

A heading in the text (`Boundaries:`, `## Non-goals`, `- Goal: ...`) is a known name with a colon, in bold, as
a Markdown heading, or above a list. Its section is what stands behind it, a list, or the lines up to the next
blank line. What follows is the task again: a sentence that asks for something must never end up in a section.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from headgate.core.boundary_text import bare_words, looks_like_path, unquote
from headgate.core.messages import clean_text
from headgate.core.settings import Data
from headgate.core.text import is_question
from headgate.errors import ConfigError

# The sections of a text.


Section = Literal["keep", "non_goals", "boundaries", "goal"]
_TOUCHING = [
    f"{refusal} {verb}"
    for refusal in ("do not", "don't", "never")
    for verb in ("touch", "modify", "change", "edit", "write")
]
_HEADINGS: dict[str, Section] = {
    **dict.fromkeys(("constraint", "constraints", "keep", "preserve", "must keep", "must preserve"), "keep"),
    **dict.fromkeys(("non goal", "non goals", "nongoal", "nongoals", "not goals"), "non_goals"),
    **dict.fromkeys(("boundary", "boundaries", "out of bounds", "out of scope", "off limits"), "boundaries"),
    **dict.fromkeys(("protected", "protected paths", "protected files", *_TOUCHING), "boundaries"),
    **dict.fromkeys(("goal", "goals"), "goal"),
}
_NAME = r"(#{1,6}\s*)?(\*\*|__)?([A-Za-z][A-Za-z'\u2019 _-]{2,25}?)\s*(?:\([^()]*\))?\s*"
_WITH_COLON = re.compile(_NAME + r"(?(2)(?:\2\s*:|:\s*\2)|:)\s*(.*)")
_WITHOUT_COLON = re.compile(_NAME + r"(?(2)\2)\s*#*")
_BULLET = re.compile(r"\s*(?:[-*+\u2022\u2013\u2014]|\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_UNDERLINE = re.compile(r"\s*(?:-{3,}|={3,})\s*")
_OTHER_HEADING = re.compile(r"#{1,6}\s.*|(\*\*|__)[^*_]+\1:?|[A-Z][\w /-]{1,30}:")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_REFUSAL = re.compile(r"(?:do|don't|never|no|not|leave|keep|the|any\w*|all|every\w*)\b", re.IGNORECASE)
_NOTHING = frozenset({"none", "n/a", "nothing", "-"})
_WRAPPED = 50
"""A line at least this long may go on in the next one."""


@dataclass(frozen=True, slots=True)
class _Heading:
    section: Section
    rest: str
    """What stands behind it on the same line."""
    depth: int | None
    """How far the bullet is indented that it stands behind; None where there is none."""


def split_sections(text: str) -> tuple[str, dict[str, list[str]]]:
    """What a text asks for, and what each of its sections says, item by item.

    A section with the goal stays in what is asked for, unless there is nothing else.
    """
    reader = _Reader(text.splitlines())
    reader.read()
    found = {name: [item for item in map(str.strip, items) if item] for name, items in reader.found.items()}
    for name, items in found.items():
        found[name] = [item for item in items if item.lower().rstrip(".") not in _NOTHING]
    found["boundaries"] = [unquote(item) for item in found["boundaries"]]
    outside = "\n".join(line for line, in_goal in reader.request if not in_goal).strip()
    request = "\n".join(line for line, _ in reader.request).strip()
    return (request if outside else "\n".join(found["goal"])), found


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.request: list[tuple[str, bool]] = []
        """The lines outside of constraint sections, and whether each belongs to the goal's."""
        self.found: dict[str, list[str]] = {"keep": [], "non_goals": [], "boundaries": [], "goal": []}
        self._heading: _Heading | None = None
        self._mode: Literal["fresh", "inline", "bullets", "lines"] = "fresh"
        self._blank = False

    def read(self) -> None:
        lines = iter(enumerate(self._lines))
        for index, line in lines:
            if _FENCE.match(line) and (length := self._fenced(index)):
                self._take_fence([line, *(fenced for _, fenced in islice(lines, length))])
            elif heading := _read_heading(line, self._following(index)):
                self._begin(heading, line)
                if _UNDERLINE.fullmatch(self._following(index)):
                    next(lines)
            elif self._heading is None:
                self.request.append((line, False))
            else:
                self._continue(line, self._heading)

    def _following(self, index: int) -> str:
        return self._lines[index + 1] if index + 1 < len(self._lines) else ""

    def _fenced(self, index: int) -> int:
        """How many lines come after an opening fence up to its end; 0 if it never ends."""
        ends = (place for place in range(index + 1, len(self._lines)) if _FENCE.match(self._lines[place]))
        return next(ends, index) - index

    def _take_fence(self, lines: list[str]) -> None:
        """Code: the items of a section that has none yet, and otherwise part of the task."""
        if self._heading is not None and self._mode == "fresh":
            self._mode = "lines"
            for line in lines[1:-1]:
                self._add(line, line, self._heading.section)
        else:
            self._heading = None
            self.request += [(line, False) for line in lines]

    def _begin(self, heading: _Heading, line: str) -> None:
        self._heading, self._blank = heading, False
        self._mode = "inline" if heading.rest else "fresh"
        self._add(heading.rest, line, heading.section)

    def _add(self, item: str, line: str, section: Section, *, to_last: bool = False) -> None:
        if to_last:
            self.found[section][-1] += f" {item.strip()}"
        else:
            self.found[section].append(item.strip())
        if section == "goal":
            self.request.append((line, True))

    def _continue(self, line: str, heading: _Heading) -> None:
        """A line below a heading: part of its section, or the end of it."""
        if not line.strip():
            self._blank = True
            self.request += [(line, True)] if heading.section == "goal" else []
        elif not self._belongs(line, heading):
            self._heading = None
            self.request.append((line, False))

    def _belongs(self, line: str, heading: _Heading) -> bool:
        section, blank, mode = heading.section, self._blank, self._mode
        if _OTHER_HEADING.fullmatch(line.strip()):
            return False
        self._blank = False
        if bullet := _BULLET.match(line):
            nested = heading.depth is None or _indent(line) > heading.depth
            if not nested or (blank and mode in ("inline", "lines")):
                return False
            self._mode = "bullets"
            self._add(bullet[1], line, section)
            return True
        if mode in ("inline", "bullets") and line[0].isspace() and not (blank and mode == "inline"):
            self._add(line, line, section, to_last=True)
            return True
        if section == "boundaries" and _is_paths(line):
            self._mode = "lines"
            self._add(line, line, section)
            return True
        if section == "boundaries" and _is_sentence(line) and (blank or mode != "fresh"):
            return False
        if mode == "fresh" or (mode == "lines" and not blank):
            self._add(line, line, section, to_last=mode == "lines" and self._goes_on(line, section))
            self._mode = "lines"
            return True
        return False

    def _goes_on(self, line: str, section: Section) -> bool:
        """Whether a line without a bullet is the rest of the one above it, which was too long."""
        last = self.found[section][-1] if self.found[section] else ""
        wrapped = len(last) >= _WRAPPED and not last.endswith((".", ";", "!", "?"))
        return section != "boundaries" and wrapped and line.strip()[:1].islower()


def _read_heading(line: str, following: str) -> _Heading | None:
    text = line.strip().removeprefix(">").strip()
    bullet = _BULLET.fullmatch(text)
    depth = _indent(line) if bullet else None
    text = bullet[1] if bullet else text
    if (found := _WITH_COLON.fullmatch(text)) and (section := _section(found[3])):
        return _Heading(section, found[4].strip(), depth)
    if (found := _WITHOUT_COLON.fullmatch(text)) and (section := _section(found[3])):
        above_list = not bullet and (_BULLET.match(following) or _UNDERLINE.fullmatch(following))
        if found[1] or found[2] or above_list:
            return _Heading(section, "", depth)
    return None


def _section(name: str) -> Section | None:
    words = re.sub(r"[\s_-]+", " ", name.lower().replace("\u2019", "'")).strip()
    return _HEADINGS.get(words)


def _is_paths(line: str) -> bool:
    """Whether a line is nothing but paths."""
    words = [word for word in bare_words(line.replace(",", " ")) if word]
    return bool(words) and all(map(looks_like_path, words))


def _is_sentence(line: str) -> bool:
    """Whether a line asks for something rather than naming what is out of bounds."""
    words = line.split()
    asks = len(words) > 3 and line.rstrip().endswith((".", "!", "?"))
    return asks and not _REFUSAL.match(line.strip()) and not any(map(looks_like_path, bare_words(line)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# Tasks.


TaskState = Literal["QUEUED", "RUNNING", "PROPOSED", "SUCCESS", "STUCK", "CANCELLED", "INFRA_ERROR"]
FINAL_STATES: frozenset[TaskState] = frozenset({"SUCCESS", "STUCK", "CANCELLED", "INFRA_ERROR"})
SETTLED_STATES: frozenset[TaskState] = FINAL_STATES | {"PROPOSED"}
"""States in which a task waits neither for its turn nor for its end."""

Standing = TaskState | Literal["QUEUED_TO_APPLY", "GONE"]
"""A state, told apart where it matters: a proposal that was queued again, and a task without a trace."""

TRANSITIONS: Mapping[Standing, frozenset[Standing]] = {
    "QUEUED": frozenset({"RUNNING", "GONE"}),
    "QUEUED_TO_APPLY": frozenset({"RUNNING", "PROPOSED"}),
    "RUNNING": SETTLED_STATES,
    "PROPOSED": frozenset({"QUEUED_TO_APPLY", "CANCELLED"}),
    "SUCCESS": frozenset(),
    "STUCK": frozenset(),
    "CANCELLED": frozenset(),
    "INFRA_ERROR": frozenset(),
    "GONE": frozenset(),
}
"""Every way a task can go. A task that runs on after a crash was RUNNING all the time."""


class ImpossibleTransition(Exception):
    """A task was to go where no task can go: a bug in Headgate."""


def check_transition(task_id: str, old: Standing, new: Standing) -> None:
    """Raises ImpossibleTransition unless the table has it."""
    if new not in TRANSITIONS[old]:
        raise ImpossibleTransition(f"Task {task_id} cannot go from {old} to {new}.")


class Constraints(Data):
    """What binds a task. Immutable: neither the model nor a new plan can change it."""

    keep: tuple[str, ...] = ()
    """What must be preserved."""
    non_goals: tuple[str, ...] = ()
    """What must not be done."""
    boundaries: tuple[str, ...] = ()
    """Paths (globs) that must not be written."""

    def __add__(self, other: "Constraints") -> "Constraints":
        return Constraints(
            keep=_merge(self.keep, other.keep),
            non_goals=_merge(self.non_goals, other.non_goals),
            boundaries=_merge(self.boundaries, other.boundaries),
        )

    def render(self) -> str:
        """The constraints as the model and people read them; empty if there are none."""
        parts = [
            f"{title}\n" + "\n".join(f"- {line}" for line in lines)
            for title, lines in (
                ("Constraints (must be preserved):", self.keep),
                ("Non-goals (must not be done):", self.non_goals),
                ("Boundaries (must not be written):", self.boundaries),
            )
            if lines
        ]
        return "\n\n".join(parts)


class Options(Data):
    """What was asked for besides the text. It holds for the task, whichever process runs it.

    Keys are never among it: they, and what commands see of the environment, are those of the process that
    runs the task. A worker inherits them from the process that started it; a process that holds the
    repository's lock already uses its own.
    """

    flow: str | None = None
    """The flow asked for by name or file; None leaves it to the configuration."""
    model: str | None = None
    """The model asked for; None leaves it to the configuration."""
    base_url: str | None = None
    """The model server asked for."""
    config: str | None = None
    """A configuration file, by its absolute path, instead of the repository's own."""
    package: str | None = None
    """The package of a monorepo to work on; None leaves it to the configuration."""
    dry_run: bool = False
    """Propose changes instead of making them."""
    benchmark: int | None = None
    """The number of the try, where the task is a benchmark's."""
    protect_tests: Literal["off", "existing", "all"] | None = None
    """Which tests may not be changed; None leaves it to the configuration."""
    resumes: str = ""
    """The task that ended stuck and is tried again: its report is all that the new one is told of it."""
    follows: str = ""
    """The ended task that this one follows: its request, its notes and its diff are what it builds on."""


ADDED = "Added by the person before this attempt:"


class Task(Options):
    """What a person submitted."""

    id: str
    text: str
    """Exactly what was submitted."""
    goal: str
    """What the text states as its goal (`Goal:`), or else the text without its sections."""
    constraints: Constraints = Constraints()
    config_files: tuple[str, ...] = ()
    """Paths that configure Headgate, which this task may not write."""
    models: tuple[tuple[str, str], ...] = ()
    """The models that it asks, each with its server's address: as its configuration says, not its options."""
    steps: tuple[str, ...] = ()
    """The commands that verify it."""
    added: str = ""
    """What the person added when the task was tried again."""

    @property
    def options(self) -> Options:
        """What was asked for besides the text."""
        return Options.model_validate(self.model_dump(include=set(Options.model_fields)))

    @property
    def request(self) -> str:
        """What is asked for: the text without its constraint sections, and what was added to it."""
        request = self._submitted
        return f"{request}\n\n{ADDED} {self.added}" if self.added else request

    @property
    def is_question(self) -> bool:
        """Whether the submitted text is a question. Words that were added later do not make it one."""
        return is_question(self._submitted)

    @property
    def _submitted(self) -> str:
        return parse_task_text(self.text).request or self.goal


class TaskText(NamedTuple):
    """A task's text, taken apart."""

    request: str
    """The text without its constraint sections; empty if there is nothing else."""
    constraints: Constraints
    goal: str
    """What its own section `Goal:` says; the request where there is none."""


def parse_task_text(text: str) -> TaskText:
    """Splits free text into what is asked for, the goal, and the constraints that its own sections state."""
    request, found = split_sections(text)
    goal = "\n".join(found.pop("goal"))
    constraints = Constraints.model_validate(found)
    return TaskText(request, constraints, goal or request)


def check_task_text(text: str, constraints: Constraints) -> TaskText:
    """The parts of a task's text. ConfigError if it asks for nothing, or it or a constraint is not text."""
    given = (text, *constraints.keep, *constraints.non_goals, *constraints.boundaries)
    if any(clean_text(part) != part for part in given):
        raise ConfigError("The task is not UTF-8 text.")
    stated = parse_task_text(text)
    if not stated.request:
        sections = " It has only sections; put the task above them." if stated.constraints.render() else ""
        raise ConfigError(f"The task is empty: say in plain words what to do.{sections}")
    return stated


def _merge(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))


def holds_up(reason: str, failed: Task, following: Task) -> bool:
    """Whether the environment that failed one task, for a reason given by its slug, will fail another.

    A crash of Headgate and a lost log are a task's own. A model that does not answer says nothing about
    another model or another server, and a broken check nothing about other steps. Of several models or
    steps, any may have failed: the other task must use all of them. Tasks that an older version stored name
    none, and hold up every task.
    """
    if reason in ("model_unavailable", "model_refused"):
        return set(failed.models) <= set(following.models)
    if reason == "check_broken":
        return failed.package == following.package and set(failed.steps) <= set(following.steps)
    return reason == "environment"
