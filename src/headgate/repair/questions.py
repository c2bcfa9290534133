"""The question that a stage of whole answers asks: what is known about the bug first, what is wanted last.

Where the suspect files are short, all questions begin with the same words, so that a server reads them once.
"""

from dataclasses import dataclass

from headgate.config import fill, fill_text, prompt
from headgate.core import Candidates, Stage, show_path
from headgate.reading import find_functions
from headgate.repair.evidence import Evidence
from headgate.run import Job
from headgate.scouts import Suspect, suspect_lines

WHOLE_LINES = 160
"""Files of this length together are shown whole; of longer ones, one function and the heads of the others."""
MOST_CHARS = 12_000
"""No more of the program is shown."""
MOST_FILE_LINES = 300
"""A whole file is asked for only up to this length."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and about which place."""

    system: str
    text: str
    suspect: Suspect
    ask: str

    @property
    def place(self) -> str:
        """For people: what it is about."""
        return self.suspect.place


def places(ask: str, evidence: Evidence) -> tuple[Suspect, ...]:
    """What can be asked about, in a stage that asks so."""
    functions = [suspect for suspect in evidence.suspects if suspect.function]
    if ask in ("function", "missing"):
        return tuple(functions)
    if ask == "line":
        return tuple(suspect_lines(functions))
    return tuple(
        suspect for suspect in evidence.suspects if not suspect.function and suspect.last <= MOST_FILE_LINES
    )


def pose(job: Job, stage: Stage, evidence: Evidence, turn: int) -> Question:
    """The question of a turn: the suspects take turns."""
    settings = Candidates.model_validate(stage.settings)
    found = places(settings.ask, evidence)[: settings.suspects]
    suspect = found[turn % len(found)]
    source = job.context.workspace.read(show_path(suspect.path)).text
    known = fill(
        "repair",
        task=job.task.request,
        constraints=job.task.constraints.render(),
        files=_files(job, evidence, suspect, source),
        language=language_of(suspect.path),
        test=evidence.test,
        said=evidence.said,
    )
    wanted = fill_text(
        stage.prompt,
        path=show_path(suspect.path),
        language=language_of(suspect.path),
        function=suspect.function,
        number=suspect.line,
        line="".join(source.split("\n")[suspect.line - 1 : suspect.line]) if suspect.line else "",
    )
    return Question(
        stage.system.strip() or prompt("repair_system"),
        f"{known}\n\n{wanted.strip()}",
        suspect,
        settings.ask,
    )


def language_of(path: str) -> str:
    """What a block of code from this file is marked with."""
    suffix = path.rpartition(".")[2].lower()
    return {"py": "python", "js": "javascript", "ts": "typescript", "rs": "rust", "rb": "ruby"}.get(
        suffix, suffix
    )


def _files(job: Job, evidence: Evidence, suspect: Suspect, source: str) -> str:
    """All suspect files where they are short, always in the same order; else the one in question."""
    paths = dict.fromkeys(each.path for each in evidence.suspects if each.function) or {suspect.path: None}
    sources = {path: job.context.workspace.read(show_path(path)).text for path in paths}
    texts = sources.values()
    is_long = sum(text.count("\n") for text in texts) > WHOLE_LINES or sum(map(len, texts)) > MOST_CHARS
    if suspect.path not in sources or is_long:
        sources = {suspect.path: _shown(source, suspect)}
    return "\n\n".join(
        f"{show_path(path)}:\n```{language_of(path)}\n{text.rstrip()}\n```" for path, text in sources.items()
    )


def _shown(source: str, suspect: Suspect) -> str:
    lines = source.rstrip("\n").split("\n")
    if not suspect.function or (len(lines) <= WHOLE_LINES and len(source) <= MOST_CHARS):
        return "\n".join(lines)[:MOST_CHARS]
    hidden = [
        range(function.first + 1, function.last + 1)
        for function in find_functions(source)
        if function.name != suspect.function
    ]
    kept: list[str] = []
    for number, line in enumerate(lines, 1):
        if not any(number in body for body in hidden):
            kept.append(line)
        elif any(number == body.start for body in hidden):
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(f"{indent}...")
    shown = "\n".join(kept)
    if len(shown) <= MOST_CHARS:
        return shown
    return "\n".join(lines[suspect.first - 1 : suspect.last])[:MOST_CHARS]
